"""The observer's watch for grey failures: a thread of its own, a sample each half minute, a look each minute.

Decides which nodes are looked at: those in service that work in a gang. Refuses to act: what it finds are signals that
ask for an active test, and advice on jobs as stated conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.health.grey.advice import Advice
from fleet.health.grey.watch import RULE, Watch
from fleet.inventory.models import Node
from fleet.lifecycle import suspects
from fleet.lifecycle.machine import NodeState
from fleet.observer.conditions import Conditions
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame

SAMPLE_EVERY = 30.0
LOOK_EVERY = 2  # samples


class Grey:
    def __init__(self, session: Session, frame: Frame, judge: Judge, conditions: Conditions) -> None:
        self._session, self._judge, self._conditions = session, judge, conditions
        self.watch = Watch(frame)
        self.seconds = 0.0

    def turn(self) -> None:
        """One sample; every second time a look at the last five minutes."""
        session = self._session
        self.watch.sample(session.clock.monotonic())
        if self.watch.window.taken % LOOK_EVERY:
            return
        began = session.clock.monotonic()
        gangs = session.once(self._gangs)
        findings = self._judge.engine.findings
        self.watch.adopt((node, device) for node, device, _ in findings.of_cause(RULE))
        look = self.watch.look(gangs, session.clock.now(), session.clock.monotonic())
        self.seconds = session.clock.monotonic() - began
        if look.suspects or look.cleared:
            self._judge.suspect(look.suspects, look.cleared)
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
        now = self._session.clock.now()
        slow = sorted((a for a in advice if a.slower), key=lambda a: -a.slower)
        starved = sorted(a.gang for a in advice if a.starved)
        if slow:
            text = (
                f"{len(slow)} of the gangs are slower than before, for example {slow[0].gang} by {slow[0].slower:.0%}."
            )
            self._conditions.state("job_slow", text, now)
        else:
            self._conditions.mend("job_slow")
        if starved:
            text = f"Loading data is likely the bottleneck of {', '.join(starved[:3])}."
            self._conditions.state("data_loading", text, now)
        else:
            self._conditions.mend("data_loading")
