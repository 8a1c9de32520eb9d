"""What people read of a gang's condition: its name, the sentence with its numbers, what it means, what one can do.

Decides the words for every code of `gangs.conditions`, and how its numbers are said (times as times, gangs by what
people call them). Refuses to find conditions: `docs/gangs-conditions.md` has the tests.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import gettext_noop as noop

from fleet.gangs.conditions.condition import Code, Condition, Fact, Severity
from fleet.ports.gangs import ref_of
from fleet.readmodels.words import duration

Word = str | Promise

SEVERITIES: dict[Severity, Word] = {
    "critical": lazy("critical"),
    "warning": lazy("warning"),
    "notice": lazy("notice"),
}
_GANGS = ("others", "suspend", "starts")  # facts that are keys of gangs
_TIMES = ("down", "budget", "left", "waits")  # facts in seconds
NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Words:
    """`says` is a template over the condition's facts, `about` and `gang`; `otherwise` is said where the fact `unless`
    is empty or 0."""

    name: Word
    says: str
    means: Word
    do: Word
    unless: str = ""
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """In the reader's language."""

    code: str
    severity: str
    gang: str
    name: str
    sentence: str
    meaning: str
    remedy: str


CONDITIONS: dict[Code, Words] = {
    "deadlock": Words(
        lazy("Gangs starve each other"),
        noop(
            "%(gang)s holds %(own)s GPUs for nothing and lacks %(missing)s; it and %(others)s hold %(held)s. "
            "Suspending %(suspend)s frees %(frees)s GPUs, and %(starts)s would fit."
        ),
        lazy("Each has some of its members and waits for GPUs that the other holds. Neither will ever start."),
        lazy("Suspend the gang that is named. Then let a gang scheduler place them: all members at once, or none."),
        unless="starts",
        otherwise=noop(
            "%(gang)s holds %(own)s GPUs for nothing and lacks %(missing)s; it and %(others)s hold %(held)s. "
            "Suspending some of them is not enough for another to fit."
        ),
    ),
    "guarantee_lost": Words(
        lazy("Gang guarantee lost"),
        noop("%(placed)s of %(wanted)s members are placed, and the scheduler goes on without the gang."),
        lazy("The placeholders timed out. With YuniKorn's style Soft its members are now placed one by one."),
        lazy("Set gangSchedulingStyle to Hard, or a longer placeholderTimeoutInSeconds, and submit it again."),
    ),
    "guarantee_none": Words(
        lazy("No gang guarantee"),
        noop("No scheduler's group binds its %(wanted)s members together."),
        lazy("Its members are placed one by one: it may hold GPUs for as long as the rest does not come."),
        lazy("Turn on gang scheduling: Volcano, KAI, YuniKorn, Kueue or a PodGroup of scheduler-plugins."),
    ),
    "guarantee_partial": Words(
        lazy("Gang guarantee for a part only"),
        noop("The guarantee covers %(minimum)s of %(whole)s pods."),
        lazy(
            "With the autoscaler on, the group is made of minReplicas: the scheduler starts with less than is wanted."
        ),
        lazy("Set minReplicas to the number that the work needs, or turn the autoscaler off for this job."),
    ),
    "guarantee_stale": Words(
        lazy("Stale pod group"),
        noop("Pod group %(about)s asks for %(minimum)s members; the cluster wants %(whole)s."),
        lazy("KubeRay makes this group once and does not bring it up to date when the cluster is resized."),
        lazy("Set minMember of the PodGroup by hand, or make the RayCluster anew with its final size."),
    ),
    "guarantee_unasked": Words(
        lazy("Gang scheduling not asked for"),
        noop("The label ray.io/gang-scheduling-enabled is missing for %(wanted)s pods."),
        lazy("With scheduler-plugins, YuniKorn and the native scheduler there is no gang without it."),
        lazy("Set the label. With Volcano or KAI as the operator's batch scheduler it is not needed."),
    ),
    "autoscaler_swings": Words(
        lazy("The autoscaler swings"),
        noop("Group %(about)s was scaled up and down in turn %(times)s times in %(minutes)s min."),
        lazy("Workers are taken back as idle while the work still waits for all of them to be there at once."),
        lazy("Set minReplicas to what the work needs, raise idleTimeoutSeconds, and place the gang whole."),
    ),
    "autoscaler_churns": Words(
        lazy("Workers come and go"),
        noop("%(times)s workers of group %(about)s were taken back soon after they came, within %(minutes)s min."),
        lazy("A placement group waited all that time: what it needs is taken away before the rest has come."),
        lazy("Raise idleTimeoutSeconds above the time that nodes take to come, or set minReplicas."),
    ),
    "autoscaler_known_loop": Words(
        lazy("Autoscaler with a known loop"),
        noop("Ray %(version)s is older than 2.45."),
        lazy("Its autoscaler can ask again and again for the workers that it takes back."),
        lazy("Use Ray 2.45 or newer."),
    ),
    "headroom_exact": Words(
        lazy("No headroom"),
        noop(
            "Group %(about)s may have %(maximum)s replicas and wants %(replicas)s: none to spare; %(enough)s is enough."
        ),
        lazy("A worker that dies on a node that stays full or sick has no place for its replacement."),
        lazy("Set maxReplicas two above the need."),
    ),
    "headroom_low": Words(
        lazy("Little headroom"),
        noop(
            "Group %(about)s may have %(maximum)s replicas and wants %(replicas)s: %(spare)s to spare; "
            "%(enough)s is enough."
        ),
        lazy("One lost node is made good. A second at the same time is not."),
        lazy("Set maxReplicas two above the need."),
    ),
    "elastic_beyond_max": Words(
        lazy("Elastic range beyond the cluster"),
        noop("Run %(about)s would grow to %(wanted)s GPUs; all groups at their largest have %(most)s."),
        lazy("It never reaches its upper end, and looks again and again whether it could."),
        lazy("Raise maxReplicas, or lower the upper end of num_workers."),
    ),
    "placement_stale": Words(
        lazy("Placement group left behind"),
        noop("Placement group %(about)s of job %(job)s, which is %(status)s, still holds %(gpus)s GPUs."),
        lazy("It is detached, so it outlived its job, and no living actor uses it. Others wait for what it reserves."),
        lazy("Remove it: ray.util.remove_placement_group. Make groups detached only where several jobs use them."),
        unless="gpus",
        otherwise=noop("Placement group %(about)s of job %(job)s, which is %(status)s, still asks for its bundles."),
    ),
    "placement_pending": Words(
        lazy("Placement group waits"),
        noop("Placement group %(about)s of %(gpus)s GPUs in %(bundles)s bundles waits for %(waits)s: %(scheduling)s."),
        lazy("Ray reserves all its bundles or none, and the cluster has no room for them now."),
        lazy("Compare its bundles with the GPUs of the workers; see why the missing workers are not there."),
    ),
    "head_down": Words(
        lazy("Head down"),
        noop("The head is down for %(down)s of %(budget)s; the workers give up in %(left)s."),
        lazy("The workers wait for their head for that long. Then they end, and with them the work."),
        lazy("Bring the head back within that time: free or replace its node first."),
    ),
    "head_lost": Words(
        lazy("Head down without fault tolerance"),
        noop("The head is down for %(down)s, and nothing keeps its state."),
        lazy("Without fault tolerance of the GCS the state of the cluster ends with its head; the workers start anew."),
        lazy("Start again from the last checkpoint. Set gcsFaultToleranceOptions before the next run."),
    ),
    "head_unprotected": Words(
        lazy("Head without fault tolerance"),
        noop("gcsFaultToleranceOptions is not set."),
        lazy("When the head's node fails, all work of the cluster is lost at once."),
        lazy("Set gcsFaultToleranceOptions; the workers then wait 600 s for their head."),
    ),
    "gpus_declared": Words(
        lazy("Declared GPUs differ from the limit"),
        noop("Group %(about)s tells Ray %(declared)s GPUs for each pod; its containers may use %(limit)s."),
        lazy("Ray puts work where there is no GPU for it, or leaves GPUs unused."),
        lazy("Remove num-gpus and let KubeRay derive it from the limit, or make the two equal."),
    ),
    "gpus_of_node": Words(
        lazy("Ray counts other GPUs than the pod has"),
        noop("Ray counts %(ray)s GPUs on %(about)s (node %(node)s); the pod's limit is %(limit)s."),
        lazy("A GPU that is gone or hidden, or a number that was set by hand."),
        lazy("Look at nvidia-smi in the pod and at the node's verdict; then at num-gpus."),
    ),
    "gpus_infeasible": Words(
        lazy("An ask larger than every node"),
        noop("%(about)s asks for %(asks)s GPUs at once; the largest node has %(most)s."),
        lazy("Waiting does not help: no worker that could come is large enough."),
        lazy("Make its bundles smaller, or the workers larger."),
        unless="about",
        otherwise=noop("A task or bundle asks for %(asks)s GPUs at once; the largest node has %(most)s."),
    ),
    "train_too_large": Words(
        lazy("Run larger than the cluster"),
        noop(
            "Run %(about)s needs %(workers)s workers of %(per_worker)s GPUs, %(asks)s in all; "
            "all groups at their largest have %(most)s."
        ),
        lazy("It can never start, however long it waits."),
        lazy("Raise maxReplicas, or lower num_workers."),
    ),
    "failures_none": Words(
        lazy("No failure is allowed"),
        noop("Run %(about)s with %(workers)s workers ends with the first failure."),
        lazy("Ray's default of max_failures is 0: one lost worker ends the run."),
        lazy("Set FailureConfig(max_failures=3), with checkpoints."),
    ),
    "failures_spent": Words(
        lazy("Allowed failures are used up"),
        noop("Run %(about)s has failed %(failed)s times of %(allowed)s that are allowed."),
        lazy("The next failure ends it."),
        lazy("Find what fails (see the nodes' verdicts), and see that its last checkpoint is good."),
    ),
    "elastic_missing": Words(
        lazy("Fixed number of workers"),
        noop("Run %(about)s goes on only with all %(workers)s workers."),
        lazy("While one is missing, the GPUs of all others are held and idle."),
        lazy("Give num_workers a range, from the fewest that hold the model."),
    ),
    "gpus_kept": Words(
        lazy("GPUs held after the end"),
        noop("The cluster stays when its job is over, with %(gpus)s GPUs."),
        lazy("Nothing shuts it down: no shutdownAfterJobFinishes and no deletion rule."),
        lazy("Set shutdownAfterJobFinishes with a ttlSecondsAfterFinished, or deletionStrategy."),
    ),
    "evidence_lost": Words(
        lazy("The driver's errors will be lost"),
        noop("The cluster is deleted at the end of its job at once, and no history server keeps its logs."),
        lazy("Why it failed is in the driver's log, which goes with the head."),
        lazy("Set ttlSecondsAfterFinished (an hour or more), or historyServerOptions with its collector."),
    ),
    "sick_node": Words(
        lazy("Ready on a sick node"),
        noop("%(ready)s members say that they are ready on %(about)s, which has a fault: %(reason)s."),
        lazy("A pod stays Ready with a GPU, a link or a mount that is broken; the whole gang waits for it or fails."),
        lazy("Checkpoint, then drain the node: its workflow does it in the order that this gang needs."),
    ),
    "sick_device": Words(
        lazy("Sick device"),
        noop("The kubelet says of a device of %(about)s on %(node)s: %(said)s."),
        lazy("The pod keeps the device until it ends."),
        lazy("Checkpoint and evict the pod; see the node's verdict."),
    ),
    "spot_too_small": Words(
        lazy("Smallest size cannot hold the model"),
        noop("At its smallest it has %(least)s GPUs; the model needs %(model)s."),
        lazy("When spot nodes are taken back, it shrinks to a size with which it only runs out of memory."),
        lazy("Raise the minimum to what the model needs, and give it firm capacity."),
    ),
    "spot_minimum": Words(
        lazy("Smallest size rests on spot nodes"),
        noop("At its smallest it needs %(least)s GPUs; groups that are not spot can have %(firm)s."),
        lazy("All spot nodes can go at once. What is left then is below the minimum, so the work stops."),
        lazy("Put as many workers as the minimum has on nodes that stay."),
    ),
}


def told(condition: Condition) -> Told:
    words, filled = CONDITIONS[condition.code], {name: _said(name, value) for name, value in condition.facts}
    filled |= {name: _said(name, condition.values[f"{name}_called"]) for name in _GANGS if _named(condition, name)}
    own = condition.values.get("gang_called") or called(condition.gang)
    filled |= {"about": condition.about, "gang": str(own)}
    known = condition.values | {"about": condition.about}
    says = words.otherwise if words.unless and not known[words.unless] else words.says
    return Told(
        condition.code,
        str(SEVERITIES[condition.severity]),
        filled["gang"],
        str(words.name),
        _(says) % filled,
        str(words.means),
        str(words.do),
    )


def as_json(condition: Condition) -> dict[str, Any]:
    """Codes and facts as they are, beside the words."""
    said = asdict(told(condition))
    return {**said, "severity": condition.severity, "key": condition.gang, "about": condition.about,
            "facts": condition.values}  # fmt: skip


def called(key: str) -> str:
    """`RayCluster train/llm`; a manifest need not say its namespace."""
    ref = ref_of(key)
    return f"{ref.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind} {ref.name}"


def _named(condition: Condition, name: str) -> bool:
    """Whether the fact tells besides keys what people call these gangs; older rows do not."""
    names, keys = condition.values.get(f"{name}_called"), condition.values.get(name)
    return isinstance(names, tuple) and isinstance(keys, tuple) and len(names) == len(keys)


def _said(name: str, value: Fact) -> str:
    if isinstance(value, tuple):
        shown = [called(one) if name in _GANGS and one.count("/") >= 3 else one for one in value]
        rest = len(shown) - NAMED_AT_MOST
        if rest > 0:
            return _("%(names)s and %(n)d more") % {"names": ", ".join(shown[:NAMED_AT_MOST]), "n": rest}
        return ", ".join(shown)
    if name in _TIMES and not isinstance(value, str):
        return duration(float(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
