"""How a call to the outside can fail, in the only distinctions that the engine acts upon.

Decides the taxonomy: permanent (a person must change something), temporary (try again after a delay), unknown outcome
(the call may have happened: observe before acting again) and blocked (the other side refused for now, by name).
Refuses vendor exceptions: adapters translate at their border.
"""

from __future__ import annotations


class PortError(Exception):
    """Base of all failures of a port. `code` is a stable reason code, `str(error)` the sentence people read."""

    code = "port_error"

    def __init__(self, text: str, *, code: str | None = None) -> None:
        super().__init__(text)
        if code:
            self.code = code


class PermanentError(PortError):
    """Trying again cannot help until a person changes a setting, a right or an object."""

    code = "permanent"


class MissingRight(PermanentError):
    """The credential lacks a right. Names the verb and the resource so that the fix is one line of RBAC."""

    code = "missing_right"

    def __init__(self, verb: str, resource: str, text: str = "") -> None:
        super().__init__(text or f"The credential may not {verb} {resource}.")
        self.verb = verb
        self.resource = resource


class NotFound(PermanentError):
    """The object does not exist (any more)."""

    code = "not_found"


class IdentityMismatch(PermanentError):
    """Who answered is not who was pinned: a serial, UUID or name differs. No power call follows."""

    code = "identity_mismatch"


class TemporaryError(PortError):
    """Trying again later may help. `retry_after` is in seconds, None if the other side gave no hint."""

    code = "temporary"

    def __init__(self, text: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(text, code=code)
        self.retry_after = retry_after


class Conflict(TemporaryError):
    """A precondition failed: somebody changed the object since it was read."""

    code = "conflict"


class EvictionBlocked(TemporaryError):
    """A PodDisruptionBudget refused an eviction (HTTP 429). `budget` is `namespace/name` where the server told it."""

    code = "pdb"

    def __init__(self, text: str, *, budget: str = "", retry_after: float | None = None) -> None:
        super().__init__(text, retry_after=retry_after)
        self.budget = budget


class ResyncNeeded(TemporaryError):
    """A watch cannot go on from its resourceVersion (410 Gone): list again."""

    code = "resync"


class UnknownOutcome(PortError):
    """The call may have taken effect (time-out, cut connection after sending). Observe before acting again."""

    code = "unknown_outcome"
