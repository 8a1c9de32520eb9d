"""Kernel lines to findings: the primary source of Xids, and the fast path.

Decides at once and from one line, its node's facts, the tables and the site's words on them; never waits for a cycle.
Refuses to let 43 and 45 stand for themselves (they follow another fault), lets 154 outrank the table, and keeps what is
older than the node's horizon as history; a line that names the boot which runs is never older than that boot, though
it came before the node told of it. Lines of other parts are rules of their own, in `lines`; where a site wants
several of them, they are counted within the rule's window. A line's time is corrected by the node's measured clock
error, and never lies in the future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from fleet.health.rules import sxid, xid
from fleet.health.rules.findings import Findings
from fleet.health.rules.gpu import XID_TITLE, gpu_evidence, gpu_label
from fleet.health.rules.lines import LINES, LineRule
from fleet.health.rules.pools import Pools
from fleet.health.rules.repeats import APPLICATION, AppRepeats
from fleet.health.rules.storage import NfsStalled
from fleet.health.rules.types import Edge, Meaning, NodeFacts, Rule
from fleet.telemetry.frame import Frame
from fleet.telemetry.kernellog import KernelLine
from fleet.telemetry.kernelsignals import KernelSignal, match

SXID_TITLE = "NVSwitch %(switch)s reported SXid %(code)s: %(name)s"
PASSING = 600.0  # seconds after which a complaint that the hardware corrected is over
SMALL_SKEW = 5.0
SENTENCE = 5.0  # seconds within which the kernel ends a sentence of several lines
ABSURD_SKEW = 10 * 366 * 86_400.0  # a clock that is decades off says nothing about the clock that stamped the line
FAR_FUTURE = timedelta(minutes=5)
KEPT_TALLIES = 10_000


class KernelLines:
    def __init__(
        self, rules: Mapping[str, Rule], frame: Frame, findings: Findings, nfs: NfsStalled, repeats: AppRepeats
    ) -> None:
        self.rules, self.frame, self.findings, self.nfs, self.repeats = rules, frame, findings, nfs, repeats
        self.pools = Pools()
        self._tallies: dict[tuple[str, str, str], deque[datetime]] = {}
        self._named: dict[str, tuple[str, datetime]] = {}  # node -> the GPU that a sentence of several lines is about

    def _rule(self, rule_id: str, facts: NodeFacts) -> Rule:
        return self.pools.rule_of(self.rules[rule_id], facts.pool)

    def _enough(self, rule: Rule, node: str, device: str, at: datetime) -> bool:
        """Has the line come as often within the window as the rule asks for?"""
        if rule.threshold <= 1:
            return True
        tally = self._tallies.pop((node, device, rule.id), deque(maxlen=1000))
        tally.append(at)
        while tally and (at - tally[0]).total_seconds() > rule.window:
            tally.popleft()
        self._tallies[node, device, rule.id] = tally  # the newest last, so that the oldest are given up first
        if len(self._tallies) > KEPT_TALLIES:
            del self._tallies[next(iter(self._tallies))]
        return len(tally) >= rule.threshold

    def _just_named(self, node: str, at: datetime) -> str:
        device, said = self._named.pop(node, ("", at))
        return device if abs((at - said).total_seconds()) <= SENTENCE else ""

    def take(self, line: KernelLine, facts: NodeFacts, now: datetime) -> list[Edge]:
        signal = match(line.text)
        if signal is None:
            return []
        at = self._when(line, facts.name, now)
        facts = _in_its_boot(line, facts, at)
        self.findings.counts["line_" + signal.kind] += 1
        if signal.kind == "gpu_named":
            self._named[facts.name] = (signal.device, at)
            return []
        if signal.kind == "off_bus" and not signal.device:
            signal = replace(signal, device=self._just_named(facts.name, at))
            if not signal.device:
                self.findings.counts["unnamed_gpu"] += 1
                return []
        if signal.kind in ("xid", "off_bus"):
            return self._xid(signal, line, facts, at, now)
        if signal.kind == "nfs_ok":
            return self.nfs.answered(facts.name, signal.device, at, now)
        if signal.kind == "nfs_stalled":
            if at < facts.horizon:
                self.findings.counts["history"] += 1
            else:
                self.nfs.stalled(facts.name, signal.device, at, now)
        elif signal.kind == "sxid":
            return self._sxid(signal, line, facts, at, now)
        elif signal.kind in LINES:
            return self._other(LINES[signal.kind], signal, line, facts, at, now)
        return []

    def _sxid(
        self, signal: KernelSignal, line: KernelLine, facts: NodeFacts, at: datetime, now: datetime
    ) -> list[Edge]:
        """A complaint of an NVSwitch; the severity in its line outranks the table."""
        code = int(signal.code)
        what = self.pools.codes.said("sxid", code, facts.pool) or sxid.meaning(code, signal.fatal)
        rule, device = self._rule("sxid-log", facts), f"switch:{signal.device}"
        if what.severity is None or not self._enough(rule, facts.name, device, at):
            self.findings.counts["ignored_sxid"] += 1
            return []
        lasting = what.severity == "unhealthy"
        args = {"switch": signal.device, "code": str(code), "name": what.name}
        edge = Edge(
            "opened", "sxid-log", facts.name, device, str(code), f"sxid-{code}", what.severity, what.action, SXID_TITLE,
            {"device": device, "node": facts.name, **args}, at, now, "kernel_log", lasting,
            {"sxid": code, "pci": signal.device, "line": line.text[:400], "by_table": what.source},
        )  # fmt: skip
        return self.findings.observe(edge, facts, at, expires=0.0 if lasting else rule.clear or PASSING)

    def _other(
        self, what: LineRule, signal: KernelSignal, line: KernelLine, facts: NodeFacts, at: datetime, now: datetime
    ) -> list[Edge]:
        rule = self._rule(what.rule, facts)
        device = what.prefix + signal.device if signal.device else ""
        if at >= facts.horizon and not self._enough(rule, facts.name, device, at):
            self.findings.counts["too_few_lines"] += 1
            return []
        severity, action, lasting = rule.severity, rule.action_class, rule.latched
        if signal.fatal is False and severity == "unhealthy":  # corrected by the hardware itself
            severity, action, lasting = "degraded", "monitor", False
        edge = Edge(
            "opened", rule.id, facts.name, device, "", rule.id, severity, action, what.title,
            {"device": device, "node": facts.name, "part": signal.device, "detail": signal.detail[:120]},
            at, now, "kernel_log", lasting, {"line": line.text[:400], "part": signal.device},
        )  # fmt: skip
        return self.findings.observe(edge, facts, at, expires=0.0 if lasting else rule.clear or PASSING)

    def _when(self, line: KernelLine, node: str, now: datetime) -> datetime:
        if line.at is None:
            return now
        at = line.at
        skew = max((float(self.frame.t.skew[t.index]) for t in self.frame.targets_of(node)), key=abs, default=0.0)
        if SMALL_SKEW < abs(skew) < ABSURD_SKEW:
            at -= timedelta(seconds=skew)
        if at > now + FAR_FUTURE:
            self.findings.counts["future_line"] += 1
        return min(at, now)

    def _xid(self, signal: KernelSignal, line: KernelLine, facts: NodeFacts, at: datetime, now: datetime) -> list[Edge]:
        code = int(signal.code)
        what, by_site = self._xid_meaning(code, signal, facts)
        if (code in xid.AFTER_EFFECTS and not by_site) or what.severity is None:
            self.findings.counts["ignored_xid"] += 1
            return []
        if at < facts.horizon:
            self.findings.counts["history"] += 1
            return []
        device = self._device(facts.name, signal.device, code)
        evidence: dict[str, object] = {
            "xid": code, "pci": signal.device, "line": line.text[:400], "by_table": what.source, **what.told(),
        }  # fmt: skip
        if code == xid.RECOVERY:
            asked = self._ask(facts.name, device, what, evidence, now)
            if asked:
                return asked
        rule, lasting = self._rule("xid-log", facts), what.severity == "unhealthy"
        edge = Edge(
            kind="opened",
            rule_id=rule.id,
            node=facts.name,
            device=device,
            code=str(code),
            cause=f"xid-{code}",
            severity=what.severity,
            action_class=what.action,
            title=XID_TITLE,
            args={"device": device, "node": facts.name, "gpu": gpu_label(self.frame, facts.name, device),
                  "code": str(code), "name": what.name},
            first_bad_at=at,
            detected_at=now,
            source="kernel_log",
            latched=lasting,
            evidence={**evidence, **gpu_evidence(self.frame, facts.name, device)},
        )  # fmt: skip
        edges = self.findings.observe(edge, facts, at, expires=0.0 if lasting else rule.clear or PASSING)
        if code in APPLICATION and what.action == "restart_app":
            edges += self.repeats.saw(code, device, signal, facts, at, now)
        return edges

    def _xid_meaning(self, code: int, signal: KernelSignal, facts: NodeFacts) -> tuple[Meaning, bool]:
        """What the code means here, and whether the site says so."""
        what = xid.meaning(code, signal.detail, signal.fatal)
        said = self.pools.codes.said("xid", code, facts.pool)
        if said is None:
            return what, False
        return replace(what, action=said.action, severity=said.severity, source=said.source), True

    def _device(self, node: str, address: str, code: int) -> str:
        """The GPU's UUID where DCGM told it; the address else, and for as long as a finding by address is open."""
        by_address = f"pci:{address}"
        if (node, by_address, f"xid-{code}") in self.findings.open:
            return by_address
        known = self.frame.gpu_at(node, address)
        return known.key if known else by_address

    def _ask(self, node: str, device: str, what: xid.Meaning, evidence: dict[str, object], now: datetime) -> list[Edge]:
        """The driver asks for a recovery: of the newest Xid finding on that GPU, if one is open."""
        causes = [f for f in self.findings.on(node, device) if f.edge.cause.startswith("xid-")]
        if not causes:
            return []
        newest = max(causes, key=lambda finding: finding.seen_at).edge
        extra = {"recovery_line": evidence["line"]}
        return self.findings.ask((node, device, newest.cause), what.action, what.severity, extra, now)


def _in_its_boot(line: KernelLine, facts: NodeFacts, at: datetime) -> NodeFacts:
    """The node as it is in the boot that the line names. What a driver says while it loads is written a minute before
    the kubelet tells of the boot: it is no history, and that boot does not end it."""
    if not line.boot or (line.boot != facts.boot_id and at < facts.horizon):
        return facts
    return replace(facts, boot_id=line.boot, boot_at=None)
