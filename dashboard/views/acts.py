"""What a person may do to one node: the buttons of its page, each with the guards' answer beforehand.

Decides which buttons work and says beside each other one why it does not. Refuses to act by GET, without a reason, and
in a cluster where the person has no right to.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from dashboard import clock
from dashboard.views.paging import node_address
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.inventory.models import Node
from fleet.lifecycle import manual
from fleet.lifecycle.asked import APPROVALS, of_action
from fleet.lifecycle.bulk_foresee import REFUSED, WAITS, Foreseen, Foresight
from fleet.lifecycle.playbooks import (
    DRAIN,
    HOLD,
    POWER_CYCLE,
    REBOOT,
    RELEASE,
    REPROVISION,
    RESET_GPU,
    VALIDATE,
)
from fleet.policy import asking
from fleet.readmodels import node_page, phrases, words

ORDER = (HOLD, RELEASE, DRAIN, VALIDATE, RESET_GPU, REBOOT, POWER_CYCLE, REPROVISION)
HARSH = (REBOOT, POWER_CYCLE, REPROVISION)


@dataclass(frozen=True, slots=True)
class Act:
    """One button. `refusal` is "" when it works; `note` is what the guards and the approval rules would say."""

    action: str
    label: str
    sentence: str
    refusal: str
    note: str
    harsh: bool


def _node(request: HttpRequest, name: str) -> Node:
    found = node_page.find(name, visible_clusters(request.user, VIEW), request.GET.get("cluster", ""))
    if len(found) != 1:
        raise Http404
    return found[0]


@needs(VIEW)
def acts(request: HttpRequest, name: str) -> HttpResponse:
    """The card of buttons."""
    node = _node(request, name)
    operate = may(request.user, OPERATE, node.cluster.name)
    sight = Foresight(node.cluster, [node], clock.now())
    found = [_act(node, action, operate, sight.ask(node, of_action(action))) for action in ORDER]
    return render(request, "node/_acts.html", {"node": node, "acts": found, "cluster": node.cluster})


def _act(node: Node, action: str, operate: bool, seen: Foreseen) -> Act:
    refusal = note = ""
    if not operate:
        refusal = _("Needs the role operator in cluster %(cluster)s.") % {"cluster": node.cluster.name}
    elif seen.answer == REFUSED or seen.why.code == "busy":
        refusal = phrases.told(seen.why.text)
    elif seen.answer == WAITS:
        note = _("It would wait: %(why)s") % {"why": phrases.told(seen.why.text)}
    kind = APPROVALS.get(action)
    people = asking.rule(kind)[0] if kind and not refusal else 0
    if people:
        asks = ngettext("%(n)s other person must agree first.", "%(n)s other people must agree first.", people)
        note = f"{asks % {'n': people}} {note}".strip()
    sentence = words.word(words.VERB_SENTENCES, action)
    return Act(action, words.word(words.VERBS, action), sentence, refusal, note, action in HARSH)


@needs(OPERATE)
@require_POST
def act(request: HttpRequest, name: str, action: str) -> HttpResponse:
    node = _node(request, name)
    if action not in ORDER:
        raise Http404
    if not may(request.user, OPERATE, node.cluster.name):
        raise PermissionDenied(least_role(OPERATE))
    reason = request.POST.get("reason", "")
    try:
        made, refused = manual.request([node.pk], action, request.user.get_username(), reason, clock.now())
    except manual.ManualRefused as error:
        messages.error(request, str(error))
    else:
        _tell(request, action, made[0].state if made else "", " ".join(refused.values()))
    return HttpResponseRedirect(node_address(node, node.cluster))


def _tell(request: HttpRequest, action: str, state: str, refused: str) -> None:
    word = words.word(words.VERBS, action)
    if refused:
        messages.error(request, refused)
    elif state == "waiting":
        messages.success(request, _("%(act)s is asked for. It waits for another person's approval.") % {"act": word})
    elif action == RELEASE:
        messages.success(request, _("It is being given back; the reason is in the audit log."))
    else:
        messages.success(request, _("%(act)s begins as soon as the guards allow it.") % {"act": word})
