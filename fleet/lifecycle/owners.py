"""What other owners of a node mean for us.

Decides whom we wait for before anything of ours begins, whose hold keeps the cordon when we leave, and when a node is
no longer ours to heal at all. Refuses to weigh owners against each other: whoever was there first is waited for. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.inventory.owners import PERSON, Owner, Stance
from fleet.inventory.topology import OPT_OUT, opted_out

CODE = "owner"
"""Blocked code of whatever waits for another owner."""
_NOTHING_MORE = "; nothing more is done to it."


def of_row(stored: Iterable[Mapping[str, str]]) -> tuple[Owner, ...]:
    """The owners as the observer wrote them."""
    return tuple(map(Owner.of, stored))


def in_the_way(owners: Iterable[Owner]) -> Owner | None:
    """Whoever is at work on the node, or deletes it: nothing of ours begins beside them."""
    return next((owner for owner in owners if owner.stance in (Stance.DELETING, Stance.WORKING)), None)


def keepers(owners: Iterable[Owner]) -> list[Owner]:
    """Those for whose sake the node must stay without new work when we leave."""
    return [owner for owner in owners if owner.keeps and owner.stance != Stance.DELETING]


def departing(owners: Iterable[Owner], labels: Mapping[str, str]) -> str:
    """Why the node is no longer ours to heal, as a sentence; "" as long as it is."""
    deleting = next((owner for owner in owners if owner.stance == Stance.DELETING), None)
    if deleting is not None:
        return f"{said(deleting)}{_NOTHING_MORE}"
    if opted_out(labels):
        return f"The label {OPT_OUT[0]}={OPT_OUT[1]} takes it out of the managed set; it is left alone."
    return ""


def left_for_a_deletion(reason: str) -> bool:
    """Is that why the node was released? Whoever deletes may call it off; a person who took it back has decided."""
    return reason.endswith(_NOTHING_MORE)


def waiting_for(owner: Owner) -> str:
    """The sentence of a workflow that may not begin its step yet."""
    return f"{said(owner)}. Muster begins nothing on the node before that has ended."


def beside(owners: Iterable[Owner]) -> str:
    """The sentence of a workflow that is through and leaves last."""
    who = "; ".join(said(owner) for owner in owners)
    return f"{who}. Muster returns the node when nobody else holds it any more."


def renamed(heir: str) -> str:
    return f"The machine has joined under another name: it is {heir} now (same system UUID)."


def said(owner: Owner) -> str:
    """What the owner does, without the full stop."""
    return f"{owner.name} {owner.doing}"


def named(stored: Iterable[Mapping[str, str]]) -> str:
    """Those that a mark names, as sentences."""
    return " ".join(f"{said(owner)}." for owner in of_row(stored) if owner.name != PERSON)


DOES: dict[Stance, str] = {
    Stance.DELETING: "Muster ends its own workflow and leaves the node alone.",
    Stance.WORKING: "Muster waits until that has ended.",
    Stance.HOLDING: "Muster joins as a further owner, and leaves a cordon that is not its own.",
    Stance.WAITING: "Muster goes on.",
}
"""What Muster does beside an owner of each stance."""


def listed(stored: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    """For answers and pages: who, what, since when, by which mark, and what Muster does."""
    return [{**owner.as_json(), "text": f"{said(owner)}.", "muster": DOES[owner.stance]} for owner in of_row(stored)]
