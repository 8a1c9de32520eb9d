"""What the adapter of Slurm says, as templates of its sentences: refusals, waits and ends of tests.

Decides nothing. Refuses Slurm's own words, which are told as they are behind ours.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

SLURM: tuple[str, ...] = (
    noop("Slurm took the drain of %(node)s and shows %(state)s without our reason."),
    noop("Slurm took the drain of %(node)s and does not show it."),
    noop("Job %(job)s may not be requeued."),
    noop("Job %(job)s does not run on %(node)s any more."),
    noop("Job %(job)s does not tell its node."),
    noop("%(node)s changed since it was read."),
    noop("Another installation of Muster holds nodes of this Slurm: this one does not act beside it."),
    noop("slurmrestd answered %(path)s with no JSON (HTTP %(status)s)."),
    noop("slurmrestd answered %(what)s without the list of them."),
    noop("Slurm refused %(path)s: %(why)s"),
    noop("Slurm knows no %(path)s: %(why)s"),
    noop("Slurm knows no node %(node)s."),
    noop("slurmrestd does not accept the token: %(why)s"),
    noop("slurmrestd does not accept the token of %(user)s: %(why)s"),
    noop("there is none"),
    noop("it ended long ago"),
    noop("it ended at %(at)s UTC"),
    noop("%(url)s serves none of %(oldest)s to %(newest)s."),
    noop("This Slurm takes no changes by REST (before 23.02)."),
    noop("The certificate of %(url)s is not accepted: %(why)s"),
    noop("slurmrestd at %(url)s cannot be reached."),
    noop("slurmrestd at %(url)s broke off while it was told something: %(why)s"),
    noop("slurmrestd at %(url)s did not answer whole within %(n)s s."),
    noop("slurmrestd at %(url)s sent more than %(n)s MiB."),
    noop("slurmctld did not answer, or refuses the token; slurmrestd does not say which."),
    noop("slurmctld did not answer, or refuses the token of %(user)s; slurmrestd does not say which."),
    noop("slurmdbd did not answer, or refuses the token; slurmrestd does not say which."),
    noop("slurmdbd did not answer, or refuses the token of %(user)s; slurmrestd does not say which."),
    noop("slurmctld did not answer slurmrestd, which had told it something: %(why)s"),
    noop("slurmctld does not answer slurmrestd: %(why)s"),
    noop("%(node)s is not held by Muster any more: no test begins."),
    noop("%(node)s is in the maintenance %(names)s, too, whose jobs may run there: no test begins."),
    noop("The reservation %(name)s does not keep %(node)s for its tests: %(why)s"),
    noop("it covers %(nodes)s."),
    noop("it covers no node"),
    noop("it is not for %(user)s alone"),
    noop("it is no maintenance"),
    noop("it has not begun"),
    noop("it ends soon"),
    noop("Slurm does not show it"),
    noop("Slurm says %(state)s of %(node)s and names no job on it; it is looked at again."),
    noop("Slurm tells of no node."),
    noop("Its state is not told."),
    noop("The partition is %(state)s."),
    noop("Partitions are not known: %(why)s"),
    noop("The hold %(hold)s cannot be named in a reservation of Slurm."),
    noop("scontrol %(verb)s: %(why)s"),
    noop("scontrol %(verb)s did not end within %(n)s s."),
    noop("%(program)s cannot be started: %(why)s"),
    noop("%(name)s is no name of a single node, job, user or reservation."),
    noop("This Slurm takes no changes of nodes by REST (before 23.02): name its scontrol with --scontrol."),
    noop("This Slurm takes no reservation by REST (before 25.05): without --scontrol no node is tested."),
    noop("This Slurm requeues no job by REST (before 26.05): without --scontrol a drain waits for its jobs."),
    noop("This Slurm does not take that by REST, and no scontrol is named: cluster add … --scontrol PATH."),
    noop("No privileged Job can be started on %(node)s: it is a node of Slurm alone."),
    noop(
        "Tests on Slurm need a folder that the nodes and Muster's workers see at the same path "
        "(MUSTER_SLURM_TEST_OUTPUT): none is set."
    ),
    noop(
        "Tests on Slurm need a folder that the nodes and Muster's workers see at the same path "
        "(MUSTER_SLURM_TEST_OUTPUT): %(folder)s is none here."
    ),
    noop("Until then a person tests the node and skips the step."),
    noop("Slurm: %(why)s"),
    noop("Slurm: %(state)s, exit code %(n)s."),
    noop("Slurm has forgotten the job, exit code %(n)s."),
    noop("Slurm does not start it: %(why)s"),
    noop("%(word)s: Slurm ended it at its time limit."),
    noop("It has ended; its output is not here yet."),
    noop("%(name)s is no name of a test."),
    noop("No acting token is set: manage.py cluster add … --slurm-act-token file:PATH."),
    noop("No acting token of Slurm is set (--slurm-act-token): its nodes are never drained."),
    noop("The token of Slurm %(place)s cannot be read."),
    noop("%(n)s of %(wanted)s are drained or about to be in Slurm."),
    noop("%(n)s of %(wanted)s are down in Slurm."),
    noop("keeps it from work (%(why)s)"),
    noop("reboots it (%(why)s)"),
)
