"""The page on the rules in `docs/`, written from the catalogue.

Decides how a rule reads as a line of a table. Refuses a word that is not the catalogue's: a test compares the page, so
that what operators read is what holds.
"""

from __future__ import annotations

from fleet.health.rules import codes
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.tuning import FIELDS, WORDS
from fleet.health.rules.types import Rule
from fleet.health.rules.wording import limit, window

_HEAD = """# Rules

What Muster judges, by which limits, and where those come from. This page is written by `manage.py rules manual`; do
not edit it. `manage.py rules list` says what holds at your site, and so does the page Rules.

A window is full or it is not judged: a rate is measured against what its whole window allows. A counter that falls was
reset, which is a new baseline. A rule that latches ends only with a boot, a remediation or a word of a person; any
other ends when its part was seen well again. Silence ends nothing: an exporter that does not answer makes its node
unknown. Evidence older than the connection, the boot or the last remediation is history.

A fatal Xid is held at once. The driver's own request (Xid 154) outranks the tables of codes in
`fleet/health/tables/`: for 8 s the choice of what follows the hold waits for it, and a plan is exchanged as long as
nothing disruptive has begun.

## A site's own rules

`MUSTER_RULES` names a YAML file. It is read at the start and whenever it changes; while it has mistakes, the rules
before stay and the cluster's conditions say the mistakes. Check it before: `manage.py rules check FILE`.

```yaml
version: 1
rules:
  thermal: {threshold: 85, severity: unhealthy}
  ib-rnr: {shadow: false}
  weka-alert: {enabled: false}
  gpu-lost: {mode: recommend}
codes:
  xid:
    63: {severity: unhealthy, action_class: reset_gpu}
  dcgm:
    DCGM_FR_CORRUPT_INFOROM: {severity: none}
pools:
  h100-train:
    pcie-replay: {threshold: 60, window: 600}
    codes:
      sxid:
        11004: {severity: none}
```
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, _settings(), _codes(), "## The rules\n"]
    groups: dict[str, list[Rule]] = {}
    for rule in DEFAULTS.values():
        groups.setdefault(_NAMES.get(rule.source, rule.source), []).append(rule)
    for name, rules in groups.items():
        parts.append(f"### {name}\n")
        parts.append("| Rule | What | Limit | Window | Severity | Asks for | Reads | Source |")
        parts.append("|---|---|---|---|---|---|---|---|")
        parts += [_line(rule) for rule in rules]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


_NAMES = {
    "kernel_log": "Kernel log",
    "dcgm": "DCGM",
    "node_exporter": "node_exporter",
    "kubernetes": "Kubernetes",
    "exporter": "Other exporters",
    "health_event": "Health events",
}


def _settings() -> str:
    words = "; ".join(f"`{key}` is one of {', '.join(values)}" for key, values in WORDS.items())
    return (
        f"Settings: {', '.join(f'`{key}`' for key in FIELDS)}. {words}. `window` and `clear` are seconds; `scrapes` of "
        "the last `of` must be bad. A rule in `shadow` leaves its signals and no incident. A rule has those settings "
        "that mean something to it (`manage.py rules show RULE`), and a pool may have any of them of its own. Lines of "
        "the kernel count one by one; with a `threshold` of more than 1 so many must come within the `window`.\n\n"
        "`mode` says how far a rule may go, as that of its cluster and of the node's pool does; the least of the three "
        "holds. In `observe` its plans are only shown, in `recommend` a person approves each, `automate` (built in) "
        "adds no limit. A workflow that has begun when the mode is lowered to `observe` writes nothing more, and plans "
        "that have not touched their node are made anew. What people ask for is not limited by a rule's mode. A fault "
        "that two rules see in the same words (a kernel line and an exporter) has the mode of the first: give both "
        "the same.\n"
    )


def _codes() -> str:
    return (
        f"Under `codes` a site says what single codes mean to it, by family ({', '.join(codes.FAMILIES)}): `severity` "
        f"is one of {', '.join(codes.SEVERITIES)}, `action_class` one of {', '.join(codes.ACTIONS)}. What is left out "
        "stays as the tables in `fleet/health/tables/` have it. A site's word outranks them and what a line says of "
        "itself, a pool's word the site's; Xid 154 cannot be changed, because it is the driver's own request. A single "
        "Xid of an application is a note: it opens no incident and changes no verdict.\n"
    )


def _line(rule: Rule) -> str:
    title = rule.title + (" (in shadow)" if rule.shadow else "") + ("" if rule.enabled else " (off)")
    reads = "<br>".join(f"`{name}`" for name in rule.reads)
    cells = (
        f"`{rule.id}`",
        title,
        limit(rule),
        window(rule),
        rule.severity,
        rule.action_class,
        reads,
        rule.origin,
    )
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
