"""The observer's watch for grey failures: a thread of its own, a sample each half minute, a look each minute.

Decides which nodes are looked at: those in service that work in a gang. Refuses to act: what it finds are signals that
ask for an active test, and advice on gangs as stated conditions of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleet.health.grey.advice import Advice
from fleet.health.grey.watch import RULE, Watch
from fleet.inventory.models import Node
from fleet.lifecycle import suspects
from fleet.lifecycle.machine import NodeState
from fleet.observer.conditions import Conditions
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame

LOOK_EVERY = 2  # samples
STATED = 8  # gangs of which each is told by itself
SLOW, STARVED = "job_slow", "data_loading"


class Grey:
    def __init__(
        self,
        session: Session,
        frame: Frame,
        judge: Judge,
        conditions: Conditions,
        roles: Callable[[], Mapping[str, str]],
        sample_seconds: float = 30.0,
    ) -> None:
        """`roles` answers the role of each node in its gang, where one is known."""
        self._session, self._judge, self._conditions, self._roles = session, judge, conditions, roles
        self.watch = Watch(frame, LOOK_EVERY * sample_seconds)
        self.seconds = 0.0
        self._stated: set[str] = set()

    def turn(self) -> None:
        """One sample; every second time a look at the last ten."""
        session = self._session
        session.way.give()
        self.watch.sample(session.clock.monotonic())
        if self.watch.gpus.window.taken % LOOK_EVERY:
            return
        began = session.clock.monotonic()
        gangs, roles = session.once(self._gangs), self._roles()
        findings = self._judge.engine.findings
        self.watch.adopt((node, device) for node, device, _ in findings.of_cause(RULE))
        session.way.give()
        look = self.watch.look(gangs, session.clock.now(), session.clock.monotonic(), roles)
        self.seconds = session.clock.monotonic() - began
        if look.suspects or look.standing or look.cleared:
            self._judge.suspect([*look.suspects, *look.standing], look.cleared)
            while session.once(self._judge.commit):
                pass
        session.once(lambda: suspects.mark(session.cluster_id, session.clock.now()))
        self._advise(look.advice)

    def _gangs(self) -> dict[str, str]:
        rows = Node.objects.filter(
            cluster_id=self._session.cluster_id,
            gone_at=None,
            ready=True,
            lifecycle__state__in=[NodeState.IN_SERVICE, NodeState.SUSPECT],
        ).exclude(gang="")
        return dict(rows.values_list("name", "gang"))

    def _advise(self, advice: Sequence[Advice]) -> None:
        """One condition for each gang, `job_slow:<gang>`, and one for those beyond the first few."""
        now, told = self._session.clock.now(), stated(advice)
        for code, text in told.items():
            self._conditions.state(code, text, now)
        for code in self._stated - told.keys():
            self._conditions.mend(code)
        self._stated = set(told)


def stated(advice: Sequence[Advice]) -> dict[str, str]:
    """Conditions, code to sentence."""
    told: dict[str, str] = {}
    slow = sorted((one for one in advice if one.slower), key=lambda one: -one.slower)
    starved = sorted((one for one in advice if one.starved), key=lambda one: one.gang)
    for code, found, words in ((SLOW, slow, slow_words), (STARVED, starved, starved_words)):
        told |= {f"{code}:{one.gang}": words(one) for one in found[:STATED]}
        if found[STATED:]:
            told[code] = f"The same holds for {len(found) - STATED} more gangs, {found[STATED].gang} among them."
    return told


def slow_words(one: Advice) -> str:
    return (
        f"Gang {one.gang} runs {one.slower:.0%} slower than in the hour before: the tensor activity of its GPUs is "
        f"{one.pace:.2f} instead of {one.usual:.2f}. Nothing is done for it."
    )


def starved_words(one: Advice) -> str:
    return (
        f"Loading data is likely the bottleneck of gang {one.gang}: its GPUs are busy {one.busy:.0%} of the time and "
        f"their memory {one.memory:.0%}, and processes wait for input on the hosts of {one.waiting:.0%} of them."
    )
