"""Rules on InfiniBand, RoCE and Ethernet ports that are data alone.

Decides the limits of what a node's own end counts; each says where it was published, or that it is our choice. Refuses
to take a node out for what a cable or a fabric does: most of it is a ticket, and what applications or the fabric's
design can cause as well is only shown at first.
"""

from __future__ import annotations

from fleet.health.rules.watch import Watch, Watched
from fleet.health.rules.watch import exporter_rule as _rule
from fleet.telemetry import names


def _port(id: str, title: str, metric: str, per_second: float, say: str, per: float = 1.0, unit: str = "/s") -> Watched:
    window = 60.0 if per == 1.0 else 300.0
    rule = _rule(id, title, (metric,), "degraded", "ticket", "NVSentinel", unit, per_second, window=window)
    return Watched(rule, (Watch("rate", metric, say, per=per),))


_PORTS = (
    Watched(
        _rule("ib-flap", "InfiniBand port flapping", (names.IB_DOWNED,), "degraded", "inspect",
              "gpud counts three drops as flapping", "drops", 3, window=600.0),
        (Watch("count", names.IB_DOWNED, "InfiniBand port %(part)s dropped %(value)s times in %(minutes)s min"),),
    ),
    Watched(
        _rule("ib-rate", "InfiniBand port below its rate", (names.IB_RATE, names.IB_STATE), "degraded", "ticket",
              "gpud and others compare with the rate expected; here with the best this port ever showed, or the limit "
              "if a site sets one", "B/s", window=60.0, scrapes=2, of=2),
        (Watch("below", names.IB_RATE, "InfiniBand port %(part)s runs at %(value)s B/s instead of %(limit)s B/s",
               own_best=True, active=names.IB_STATE, active_from=4.0),),
    ),
    Watched(
        _rule("ib-symbol-hour", "InfiniBand symbol errors", (names.IB_SYMBOL,), "unhealthy", "inspect", "NVSentinel",
              "errors/h", 120, window=3600.0, latched=True),
        (Watch("rate", names.IB_SYMBOL, "InfiniBand port %(part)s counts %(value)s symbol errors/h", per=3600.0),),
    ),
    _port("ib-symbol", "InfiniBand symbol errors at a high rate", names.IB_SYMBOL, 10,
          "InfiniBand port %(part)s counts %(value)s symbol errors a second (limit %(limit)s)"),
    _port("ib-recovery", "InfiniBand link recoveries", names.IB_RECOVERY, 5,
          "InfiniBand port %(part)s recovers its link %(value)s times a minute (limit %(limit)s)", 60.0, "/min"),
    _port("ib-rcv-errors", "InfiniBand receive errors", names.IB_RCV_ERRORS, 10,
          "InfiniBand port %(part)s receives %(value)s bad packets a second (limit %(limit)s)"),
    _port("ib-discards", "InfiniBand packets discarded", names.IB_DISCARDS, 100,
          "InfiniBand port %(part)s discards %(value)s packets a second (limit %(limit)s)"),
    _port("ib-ack-timeout", "RDMA acknowledgement time-outs", names.IB_ACK_TIMEOUT, 1,
          "Port %(part)s waits in vain for %(value)s acknowledgements a second (limit %(limit)s)"),
    _port("roce-slow-restart", "RoCE slow restarts", names.ROCE_SLOW_RESTART, 10,
          "RoCE port %(part)s restarts slowly %(value)s times a second (limit %(limit)s)"),
    Watched(
        _rule("ib-integrity", "InfiniBand link integrity errors", (names.IB_INTEGRITY,), "unhealthy", "inspect",
              "NVSentinel: any is fatal", "errors", 1, latched=True),
        (Watch("grows", names.IB_INTEGRITY, "InfiniBand port %(part)s counted %(value)s link integrity errors"),),
    ),
    Watched(
        _rule("ib-overrun", "InfiniBand buffer overruns", (names.IB_OVERRUN,), "unhealthy", "inspect",
              "NVSentinel: any is fatal", "errors", 1, latched=True),
        (Watch("grows", names.IB_OVERRUN, "InfiniBand port %(part)s counted %(value)s buffer overruns"),),
    ),
    Watched(
        _rule("ib-rnr", "RDMA receiver not ready", (names.IB_RNR,), "degraded", "monitor",
              "NVSentinel: any is fatal; applications cause it too, so it is only shown at first (our choice)",
              "retries", 1, latched=True, shadow=True),
        (Watch("grows", names.IB_RNR, "Port %(part)s retried %(value)s times because its receiver was not ready"),),
    ),
    Watched(
        _rule("nic-flap", "Network port flapping", (names.NIC_CARRIER,), "degraded", "ticket",
              "NVSentinel: more than two changes of the carrier; within 10 min is our choice", "changes", 3,
              window=600.0),
        (Watch("count", names.NIC_CARRIER, "Network port %(part)s changed its carrier %(value)s times in %(minutes)s "
               "min"),),
    ),
    Watched(
        _rule("nic-speed", "Network port below its speed", (names.NIC_SPEED,), "degraded", "ticket",
              "our choice: below the best this port ever showed", "B/s", window=60.0, scrapes=2, of=2),
        (Watch("below", names.NIC_SPEED, "Network port %(part)s runs at %(value)s B/s instead of %(limit)s B/s",
               own_best=True),),
    ),
    Watched(
        _rule("nic-errors", "Network port errors", (names.NIC_RCV_ERRORS, names.NIC_SEND_ERRORS), "degraded", "ticket",
              "as for InfiniBand (our choice)", "/s", 10, window=60.0),
        tuple(Watch("rate", metric, "Network port %(part)s counts %(value)s errors a second (limit %(limit)s)")
              for metric in (names.NIC_RCV_ERRORS, names.NIC_SEND_ERRORS)),
    ),
)  # fmt: skip
_ROCE = (
    Watched(
        _rule("nic-pfc", "Network port is paused all the time", (*names.NIC_PAUSED, *names.NIC_PAUSES), "degraded",
              "monitor", "our choice, and only shown at first: how much is too much depends on the fabric", "frames/s",
              10_000, window=60.0, shadow=True),
        (*(Watch("rate", metric, "Network port %(part)s is told to pause %(value)s times a second (limit %(limit)s)")
           for metric in names.NIC_PAUSED),
         *(Watch("rate", metric, "Network port %(part)s tells its peer to pause %(value)s times a second "
                 "(limit %(limit)s)") for metric in names.NIC_PAUSES)),
    ),
    Watched(
        _rule("nic-pause-storm", "Network port stopped its traffic by a pause storm", (names.NIC_STORM,), "degraded",
              "inspect", "the adapter's own watermark: its host took nothing for so long that it gave up flow control "
              "(our choice)", "events", 1, latched=True),
        (Watch("grows", names.NIC_STORM, "Network port %(part)s had %(value)s pause storms"),),
    ),
    Watched(
        _rule("nic-pause-stall", "Network port pauses for long", (names.NIC_STORM_WARNING,), "degraded", "monitor",
              "the adapter's own lower watermark (our choice)", "events", 1, window=600.0),
        (Watch("count", names.NIC_STORM_WARNING, "Network port %(part)s paused its peer for long %(value)s times"),),
    ),
    Watched(
        _rule("nic-discards", "Network port discards packets", (names.NIC_DISCARDS, *names.NIC_PRIO_DISCARDS),
              "degraded", "ticket", "as NVSentinel for InfiniBand's discards", "packets/s", 100, window=60.0),
        tuple(Watch("rate", metric, "Network port %(part)s discards %(value)s packets a second (limit %(limit)s)")
              for metric in (names.NIC_DISCARDS, *names.NIC_PRIO_DISCARDS)),
    ),
    Watched(
        _rule("nic-symbol", "Network port symbol errors", (names.NIC_SYMBOL,), "degraded", "ticket",
              "as NVSentinel for InfiniBand's symbol errors", "errors/s", 10, window=60.0),
        (Watch("rate", names.NIC_SYMBOL, "Network port %(part)s counts %(value)s symbol errors a second "
               "(limit %(limit)s)"),),
    ),
    Watched(
        _rule("nic-link-down", "Network port loses its link", (names.NIC_LINK_DOWN,), "degraded", "inspect",
              "as gpud for InfiniBand's drops", "drops", 3, window=600.0),
        (Watch("count", names.NIC_LINK_DOWN,
               "Network port %(part)s lost its link %(value)s times in %(minutes)s min"),),
    ),
    Watched(
        _rule("roce-out-of-order", "RDMA packets come out of order", (names.IB_OUT_OF_ORDER,), "degraded", "monitor",
              "our choice, and only shown at first: adaptive routing reorders, too", "packets/s", 1000, window=60.0,
              shadow=True),
        (Watch("rate", names.IB_OUT_OF_ORDER, "Port %(part)s receives %(value)s packets a second out of order "
               "(limit %(limit)s)"),),
    ),
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (*_PORTS, *_ROCE)
