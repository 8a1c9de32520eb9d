"""Reasons that come from the work on a node: gangs that wait for each other, jobs that are spared, pods that return.

Decides the words for drains that know the job. Data only.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import gettext_noop as noop

from fleet.readmodels.reasons.types import GUARD, PEOPLE, WORK, Reason

WORKLOADS: dict[str, Reason] = {
    "gang_joining": Reason(
        lazy("the other nodes of a gang"),
        lazy("Other nodes of the same gang are to be drained too; they wait for each other, so that it stops once."),
        GUARD,
        lazy("The others arrive, or the time of waiting for them is over."),
        lazy("Nothing; or let the drain wait for nobody, with a reason."),
        (
            noop(
                "%(n)s nodes of gang %(gang)s are to be drained. Waits until %(until)s UTC for %(names)s, "
                "so that the gang is interrupted once."
            ),
        ),
    ),
    "gang_resting": Reason(
        lazy("a gang that starts again"),
        lazy("Its gang was interrupted lately and is not interrupted twice."),
        GUARD,
        lazy("The gang has had its time to start again."),
        lazy("Wait; or let the drain wait for nobody, with a reason."),
        (
            noop(
                "Gang %(gang)s was interrupted at %(at)s UTC by %(by)s and starts again. "
                "This node waits until %(until)s UTC, so that the gang is not interrupted twice."
            ),
        ),
    ),
    "workload_apart": Reason(
        lazy("another node of a Kueue workload"),
        lazy("Another node of the same Kueue workload is out; Kueue replaces one, and evicts the whole when two are."),
        GUARD,
        lazy("The workload is whole again, or the latest time that is named."),
        lazy("Wait; or let the drain wait for nobody, with a reason, if the node is needed at once."),
        (
            noop(
                "Kueue workload %(name)s loses one node at a time, and %(by)s drains %(node)s. Waits until %(until)s "
                "UTC at most: with a second one out, Kueue evicts it whole."
            ),
            noop(
                "Kueue workload %(name)s loses one node at a time, and %(by)s took %(node)s from it at %(at)s UTC; it "
                "is not whole again yet. Waits until %(until)s UTC at most: with a second one out, Kueue evicts it "
                "whole."
            ),
            noop(
                "Kueue workload %(name)s loses one node at a time, and Kueue calls %(nodes)s unhealthy. Waits until "
                "%(until)s UTC at most: with a second one out, Kueue evicts it whole."
            ),
            noop(
                "Kueue workload %(name)s loses one node at a time, and %(nodes)s of it is not ready. Waits until "
                "%(until)s UTC at most: with a second one out, Kueue evicts it whole."
            ),
        ),
    ),
    "job_wait": Reason(
        lazy("a checkpoint or the end of a job"),
        lazy("Stopping the work later loses less than stopping it now."),
        WORK,
        lazy("The checkpoint or the job's end, or the latest time that is named."),
        lazy("Wait; or let the drain wait for nobody, with a reason, if the node is needed at once."),
        (
            noop(
                "Waits for the %(what)s of %(gang)s, expected at %(at)s UTC. Stopping its work now loses "
                "%(now)s GPU-h (%(gpus)s GPUs, %(since)s); then %(then)s GPU-h, and waiting costs "
                "%(waiting)s GPU-h. Not longer than until %(latest)s UTC."
            ),
            noop("Slurm has not drained %(pods)s yet, which its operator does of a cordoned node."),
            noop("Slurm lets running jobs end on %(pods)s, which takes no new ones."),
            noop(
                "Slurm lets running jobs end on a drained node: %(jobs)s; their time limit ends at %(at)s UTC. A "
                "requeue is only for a fault in a hurry."
            ),
            noop(
                "Slurm lets running jobs end on a drained node: %(jobs)s; they have no time limit. A requeue is only "
                "for a fault in a hurry."
            ),
        ),
    ),
    "ray_head": Reason(
        lazy("the head of a Ray cluster"),
        lazy("The head of a Ray cluster runs on the node; its loss ends the cluster's work."),
        PEOPLE,
        lazy("A person approves the move of a head that has fault tolerance, or the cluster ends."),
        lazy("Ask the owner of the Ray cluster; then approve, or abort with a reason."),
        (
            noop(
                "%(names)s is the head of a Ray cluster without fault tolerance: draining it loses the whole cluster's "
                "work. It is never drained so. Its owner ends or moves the cluster, or a person aborts."
            ),
            noop("%(names)s is the head of a Ray cluster, and its drain was rejected (%(why)s). A person aborts."),
            noop(
                "%(names)s is the head of a Ray cluster that %(saved)s. Waits for a person's approval: with it the "
                "head moves, and the workers wait for it for some minutes."
            ),
        ),
        "approvals",
        True,
    ),
    "pods_return": Reason(
        lazy("pods that come back"),
        lazy("Pods come back to the node although it is held, because they tolerate its cordon."),
        WORK,
        lazy("Their owner keeps them away."),
        lazy("Ask the named owner to remove the toleration, or to end the pods."),
        (
            noop(
                "Pods of %(owners)s come back to this node although it is held: they tolerate its cordon. "
                "%(names)s run here again. Their owner must keep them away."
            ),
        ),
    ),
}
