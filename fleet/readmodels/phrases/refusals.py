"""Why an act of a person was refused, as templates of what the services say.

Decides nothing; refuses reasons why something waits, which have a catalogue of their own.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

REFUSALS: tuple[str, ...] = (
    noop("Muster keeps no hold on %(node)s."),
    noop("Muster keeps no hold on %(node)s%(by)s."),
    noop("It takes a reason, which the audit log keeps."),
    noop("It changed at the same moment; look again."),
    noop("%(label)s is %(state)s: there is nothing to retry."),
    noop("Skipping a step takes a reason."),
    noop("%(verb)s cannot be skipped; only drain, validate and soak can."),
    noop("Work runs on %(node)s (pods: %(n)s), and what follows the drain would end it without a word."),
    noop(
        "Let the drain wait for nobody, force what a budget keeps if another person agrees, or have the work ended; "
        "then it can be skipped."
    ),
    noop("Aborting takes a reason."),
    noop("%(label)s has ended already."),
    noop("It is being released already."),
    noop("A reset was sent and the node is not back yet; abort when it is."),
    noop("Rejecting a plan takes a reason."),
    noop("Closing a ticket takes a word on what was done."),
    noop("%(label)s is closed already."),
    noop("Resetting the breaker takes a reason."),
    noop("The breaker of this cluster is not open."),
    noop("There is no such request."),
    noop("The request is approved already."),
    noop("The request is rejected already."),
    noop("The request is expired already."),
    noop("The request is withdrawn already."),
    noop("A no takes a reason, which the audit log keeps."),
    noop("Something else was asked for this drain before; answer that first."),
    noop("No budget keeps a pod of this drain; there is nothing to force."),
    noop("The drain has not begun yet."),
    noop("Nothing is asked for this drain any more."),
    noop("%(label)s is not draining now."),
    noop("Some of these nodes have left the cluster: select anew."),
    noop("No node passes this selection."),
    noop("%(label)s was started already."),
    noop("%(by)s drew it up, and is the one to start it."),
    noop("This is not the list that was shown: select anew."),
    noop("%(label)s does not wait for approval."),
    noop("%(label)s does not run."),
    noop("Pausing takes a reason."),
    noop("%(label)s is not paused."),
    noop("Cancelling takes a reason."),
    noop("Changing the policy takes a reason."),
    noop("Nothing differs from the policy in force."),
    noop("This changes the policy of %(clusters)s, for which your role does not hold."),
    noop("Rejecting a change of the policy takes a reason."),
    noop("It does not fit any more: %(rest)s"),
    noop("The role %(role)s may touch %(most)s nodes in one action; these are %(n)s."),
    noop("The node was replaced since the list was made."),
    noop("There is no action %(action)s; there are %(known)s."),
    noop("Either an action or a playbook."),
    noop("There is no playbook %(name)s; there are %(known)s."),
    noop("The playbook %(name)s in force is %(version)s, not %(other)s."),
    noop("The playbook %(name)s fences a host that is gone: it is not for planned work."),
    noop("The playbook %(name)s is not for this pool, kind of pool or SKU."),
    noop("Another person than the requester must approve."),
    noop("%(label)s works on %(node)s already."),
)
