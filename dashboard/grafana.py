"""The way from a node's page to the same node and time in Grafana.

Decides how a site's template is filled: `{node}`, `{cluster}`, and `{from}` and `{to}` in milliseconds, as Grafana
takes them. A template without times gets them added. Refuses a node's name as anything but text of the address.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote


def address(template: str, node: str, cluster: str, since: datetime, until: datetime) -> str:
    """Empty where the cluster has no dashboard."""
    if not template:
        return ""
    if "{from}" not in template and "{to}" not in template:
        template += ("&" if "?" in template else "?") + "from={from}&to={to}"
    places = {"node": node, "cluster": cluster, "from": _ms(since), "to": _ms(until)}
    for name, value in places.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template


def _ms(at: datetime) -> str:
    return str(int(at.timestamp() * 1000))
