"""Reasons why a node of a bulk action or of a planned maintenance has not begun.

Decides the words for lists that roll: their pace, their failures, the work that is spared. Data only.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as lazy

from fleet.readmodels.reasons.types import GUARD, PEOPLE, WORK, Reason

BATCHES: dict[str, Reason] = {
    "at_once": Reason(
        lazy("its turn"),
        lazy("As many nodes of the list are under way as the pace allows."),
        GUARD,
        lazy("One of them ends."),
        lazy("Wait; or begin the action anew with more at once."),
    ),
    "failures": Reason(
        lazy("a person, after failures"),
        lazy("So many nodes of the list failed that it was paused."),
        PEOPLE,
        lazy("A person lets it go on, or cancels it."),
        lazy("Look at the nodes that failed, then let the list go on or cancel it."),
        person=True,
    ),
    "busy": Reason(
        lazy("another workflow"),
        lazy("Another workflow is open on the node; one runs at a time."),
        GUARD,
        lazy("The end of the other workflow."),
        lazy("Wait, or look at that workflow."),
        link="workflows",
    ),
    "job": Reason(
        lazy("the end of a job"),
        lazy("The gang on the node is spared: the node waits until it has ended."),
        WORK,
        lazy("The gang ends."),
        lazy("Wait; or begin the action anew without sparing jobs."),
    ),
    "refused": Reason(
        lazy("nothing"),
        lazy("The action is not possible on that node."),
        PEOPLE,
        lazy("What the sentence names changes; then the action is begun anew."),
        lazy("Read the sentence; leave the node out, or mend what it names."),
        person=True,
    ),
}
