"""A suspect beside its peers, as people see it: the chart is drawn, in both themes, on a desk and on a phone."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from playwright.sync_api import expect

from fleet.access.models import User
from fleet.ports.clock import SYSTEM_CLOCK
from tests.browser.conftest import Accessible, Site
from tests.browser.looking import look_at
from tests.builders import a_cluster, a_node, an_incident
from tests.domain.dashboard_details.conftest import a_signal


def evidence() -> dict[str, Any]:
    """A quarter of an hour, at the end of which a GPU runs at half its clock and its peers spin."""
    began = SYSTEM_CLOCK.now() - timedelta(minutes=15)
    clock, tensor = [], []
    for n in range(30):
        at, wave, slow = (began + timedelta(seconds=30 * n)).isoformat(timespec="seconds"), math.sin(n / 3), n >= 10
        clock.append([at, (990 if slow else 1975) + 8 * wave, 1968 + 4 * wave, 1982 + 4 * wave])
        tensor.append([at, 0.46 + 0.01 * wave, (0.23 if slow else 0.44) + 0.01 * wave, (0.26 if slow else 0.48)])
    return {
        "text": "SM clock 990 MHz against 1975, tensor activity 0.46 against 0.24", "gang": "train/llm-7",
        "role": "worker", "peers": 63,
        "traces": [{"name": "SM clock", "unit": "MHz", "points": clock},
                   {"name": "tensor activity", "unit": "", "points": tensor}],
    }  # fmt: skip


def test_a_suspect_beside_its_peers(site: Site, somebody: Callable[..., User], accessible: Accessible) -> None:
    cluster = a_cluster(observer="test", observer_until=SYSTEM_CLOCK.now() + timedelta(hours=1))
    cluster.conditions = [
        {"code": "job_slow:train/llm-7", "since": SYSTEM_CLOCK.now().isoformat(),
         "text": "Gang train/llm-7 runs 48% slower than in the hour before: the tensor activity of its GPUs is 0.24 "
                 "instead of 0.46. Nothing is done for it."}
    ]  # fmt: skip
    cluster.save()
    node = a_node(cluster, gang="train/llm-7", state="suspect", verdict="degraded")
    title = "GPU 3 does not work like its 63 peers: SM clock 990 MHz against 1975, tensor activity 0.46 against 0.24"
    told: dict[str, Any] = {"cause": "grey-suspect", "rule": "grey-suspect", "action_class": "confirm",
                            "device": "GPU-3", "severity": "degraded", "title": title}  # fmt: skip
    incident = an_incident(node, evidence={**evidence(), "said": {"id": title, "args": {"part": "3"}}}, **told)
    a_signal(node, incident, source="dcgm", evidence=evidence(), **told)
    page = site.page(somebody("operator"))
    addresses = {"suspect-incident": f"/incidents/{incident.pk}/", "suspect-node": f"/nodes/{node.name}/"}
    for address in addresses.values():
        page.goto(address)
        chart = page.locator(f'[data-figure="/incidents/{incident.pk}/charts/0.json"]')
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg.main-svg").first).to_be_visible()
        expect(chart.locator("g.trace.scatter")).to_have_count(3)
    look_at(site, page, addresses, accessible)
