"""How often the interpreter looks for cyclic garbage in a process that holds a whole cluster.

Decides two things. Young objects are looked through after fifty thousand new ones instead of seven hundred: a page of
pods is twenty-five thousand, none of them garbage, and looking at them time and again costs more than reading them.
And what was there when the first round of scrapes ended is set aside for good: a full look at the frame of ten thousand
nodes holds the interpreter, and with it a fatal line, for a second. Refuses to switch the collector off.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 50_000, 20, 10


def begin() -> None:
    """For the life of the process."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def set_aside() -> None:
    """What lives now is no garbage and is not looked at again; reference counts still free it."""
    gc.freeze()
