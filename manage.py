#!/usr/bin/env python3
"""Entry point of every command.

Decides only who handles a command line: `up` runs without Django, because the supervisor must stay small and starts
before there is a database; everything else is Django's. Refuses to run on a Python that is too old, in words.
"""

from __future__ import annotations

import os
import sys

if sys.version_info < (3, 11):
    sys.exit("Muster needs Python 3.11 or newer; this is %d.%d. Use .venv/bin/python." % sys.version_info[:2])


def main(argv: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
    try:
        if argv[1:2] == ["up"]:
            from fleet.ops.up import main as up

            return up(argv[2:])
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as missing:
        print(f"{missing.name} is not installed here: run `make run` once, then use .venv/bin/python", file=sys.stderr)
        return 1
    execute_from_command_line(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
