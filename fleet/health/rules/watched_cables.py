"""Rules on the switch's end of a cable that are data alone.

Decides the same limits for what a switch's port counts as for what the HCA's port counts: a cable is one thing with two
ends, and either may be the one that sees the fault. Their findings lie on the HCA's port, name both ends and belong to
one incident. Refuses links between switches: no node hangs on them.
"""

from __future__ import annotations

from fleet.health.rules.types import ActionClass, Rule, Severity
from fleet.health.rules.watch import How, Watch, Watched
from fleet.telemetry import names

SAME = "as at the node's end (NVSentinel)"


def _end(
    id: str, title: str, metric: str, how: How, say: str, severity: Severity, action: ActionClass, unit: str,
    threshold: float, window: float = 0.0, origin: str = SAME, latched: bool = False, per: float = 1.0,
) -> Watched:  # fmt: skip
    held = 2 if how == "above" else 1
    rule = Rule(
        id,
        title,
        (metric,),
        "exporter",
        severity,
        action,
        origin,
        threshold,
        unit,
        window,
        latched=latched,
        scrapes=held,
        of=held,
    )
    return Watched(rule, (Watch(how, metric, say, per=per),))


WATCHED: tuple[Watched, ...] = (
    _end("ib-switch-flap", "Switch port flapping", names.SWITCH_DOWNED, "rate",
         "The switch's end of cable %(part)s dropped %(value)s times in %(minutes)s min", "degraded", "inspect",
         "drops", 3, 600.0, "as at the node's end (gpud)", per=600.0),
    _end("ib-switch-symbol-hour", "Symbol errors at the switch", names.SWITCH_SYMBOL, "rate",
         "The switch's end of cable %(part)s counts %(value)s symbol errors/h", "unhealthy", "inspect", "errors/h", 120,
         3600.0, latched=True, per=3600.0),
    _end("ib-switch-symbol", "Symbol errors at a high rate at the switch", names.SWITCH_SYMBOL, "rate",
         "The switch's end of cable %(part)s counts %(value)s symbol errors a second (limit %(limit)s)", "degraded",
         "ticket", "/s", 10, 60.0),
    _end("ib-switch-recovery", "Link recoveries at the switch", names.SWITCH_RECOVERY, "rate",
         "The switch's end of cable %(part)s recovers its link %(value)s times a minute (limit %(limit)s)", "degraded",
         "ticket", "/min", 5, 300.0, per=60.0),
    _end("ib-switch-rcv-errors", "Receive errors at the switch", names.SWITCH_RCV_ERRORS, "rate",
         "The switch's end of cable %(part)s receives %(value)s bad packets a second (limit %(limit)s)", "degraded",
         "ticket", "/s", 10, 60.0),
    _end("ib-switch-integrity", "Link integrity errors at the switch", names.SWITCH_INTEGRITY, "grows",
         "The switch's end of cable %(part)s counted %(value)s link integrity errors", "unhealthy", "inspect", "errors",
         1, latched=True),
    _end("ib-switch-ber", "Bit errors on a cable", names.SWITCH_BER, "above",
         "Cable %(part)s has a bit error rate of %(value)s after correction, at the switch (limit %(limit)s)",
         "degraded", "ticket", "ratio", 1e-12, 60.0, "NVIDIA's ibdiagnet warns above it"),
    _end("ib-alarm", "Alarm of the fabric's manager on a cable", names.FABRIC_ALARM, "above",
         "The fabric's manager raises an alarm on cable %(part)s: %(sub)s", "degraded", "ticket", "flag", 0, 30.0,
         "UFM's own events, with its own thresholds"),
)  # fmt: skip
