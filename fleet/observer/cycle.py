"""One turn of the rules: judge, commit, settle, tell.

Decides the order of a turn, and when verdicts may be told: not before every exporter was asked once, because a process
that has just started knows nothing and should not say so of each node. Refuses to write what did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.types import NodeFacts
from fleet.inventory import clusters
from fleet.observer.conditions import Conditions
from fleet.observer.judge import Judge
from fleet.observer.scraping import Scraper
from fleet.observer.session import DATABASE_AWAY, Session
from fleet.observer.verdicts import VerdictBook
from fleet.telemetry.frame import STALE_INTERVALS, Frame
from fleet.telemetry.targets import Target

SKEW_SECONDS = DEFAULTS["clock-skew"].threshold


class Cycle:
    def __init__(
        self,
        session: Session,
        frame: Frame,
        judge: Judge,
        scraper: Scraper,
        conditions: Conditions,
        hurry: Callable[[list[str]], None] = lambda nodes: None,
    ) -> None:
        self._hurry = hurry
        self._session, self._frame, self._judge = session, frame, judge
        self._scraper, self._conditions = scraper, conditions
        self.book = VerdictBook(session, frame)
        self._began = session.clock.monotonic()
        self.seconds = 0.0

    def turn(self) -> None:
        """Everything of one cycle. A database that is away leaves edges queued and verdicts unwritten."""
        session = self._session
        began = session.clock.monotonic()
        try:
            if session.connected_at is not None:
                self._judge_all()
            self._tell_conditions()  # a cluster that was never reached has these to tell and nothing else
        except DATABASE_AWAY as error:
            session.complain(error)
        finally:
            self.seconds = session.clock.monotonic() - began

    def _judge_all(self) -> None:
        session = self._session
        verdicts = session.once(self._judge.cycle)
        if self._judge.facts.unheard:
            self._hurry(self._judge.facts.unheard)
        while session.once(self._judge.commit):
            pass
        session.once(self._judge.settle)
        if self._may_tell():
            self.book.update(verdicts, self._judge.facts.of, self._judge.facts.ids)

    def _may_tell(self) -> bool:
        patience = STALE_INTERVALS * self._session.interval
        return self._scraper.round_done or self._session.clock.monotonic() - self._began > patience

    def _tell_conditions(self) -> None:
        session, conditions = self._session, self._conditions
        now = session.clock.now()
        if self._judge.rules.problem:
            conditions.state("rules", self._judge.rules.problem, now)
        else:
            conditions.mend("rules")
        silent = silence(self._scraper.failing(), self._scraper.total(), self._judge.facts.of)
        if silent:
            conditions.state("scrape", silent, now)
        else:
            conditions.mend("scrape")
        skewed = [t for t in list(self._frame.targets) if abs(float(self._frame.t.skew[t.index])) > SKEW_SECONDS]
        if skewed:
            text = f"The clock of {skewed[0].node} is {float(self._frame.t.skew[skewed[0].index]):.0f} s off."
            conditions.state("clock_skew", text if len(skewed) == 1 else f"{text} {len(skewed)} exporters are.", now)
        else:
            conditions.mend("clock_skew")
        listed = conditions.changed(session.clock.monotonic())
        if listed is not None:
            session.once(lambda: clusters.set_conditions(session.cluster_id, session.epoch, listed, now))
            conditions.wrote(listed, session.clock.monotonic())


def silence(failing: Sequence[Target], total: int, facts: Mapping[str, NodeFacts]) -> str:
    """What is wrong with the exporters, in words; "" when nothing is. Those of a node that we work on are silent
    because of us: such nodes are counted beside the others, and are no trouble by themselves."""
    ours = {target.node for target in failing if (known := facts.get(target.node)) and known.in_remediation}
    others = [target for target in failing if target.node not in ours]
    if not others:
        return ""
    example = others[0].last_error or f"{others[0].job} on {others[0].node}"
    text = f"{len(others)} of {total} exporters do not answer, for example: {example}"
    if not ours:
        return text[:400]
    return f"{text[:330]} Not counted: {len(ours)} {'node is' if len(ours) == 1 else 'nodes are'} booting by us."
