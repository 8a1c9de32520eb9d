"""How busy the GPUs of the nodes in a table were: a line and a sentence for each.

Decides how many nodes may be asked for at once. The page asks when its table stands, so that no table waits for
history. Refuses nodes of clusters that the reader may not see: they are left out, as are those without a value.
"""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _

from dashboard import clock
from dashboard.charts import sparks
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import measures

AT_ONCE = 100


@needs(VIEW)
def use(request: HttpRequest) -> JsonResponse:
    """`?n=cluster/node`, repeated -> {"cluster/node": {"line": path data, "now": "87 %", "said": sentence}}."""
    parts = (asked.partition("/") for asked in request.GET.getlist("n")[:AT_ONCE])
    names = [(cluster, node) for cluster, _slash, node in parts]
    found = measures.use_of(names, visible_clusters(request.user, VIEW), clock.now())
    return JsonResponse({f"{cluster}/{node}": _told(values) for (cluster, node), values in found.items()})


def _told(values: list[float | None]) -> dict[str, str]:
    known = [value for value in values if value is not None]
    words = {"last": f"{known[-1]:.0f}", "low": f"{min(known):.0f}", "high": f"{max(known):.0f}"}
    return {
        "line": sparks.path(values, 0.0, 100.0),
        "now": f"{words['last']} %" if values[-1] is not None else "–",
        "said": _("GPUs used at %(last)s %%; between %(low)s and %(high)s %% in two hours") % words,
    }
