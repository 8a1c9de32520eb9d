"""The fleet page in a browser: keyboard, live changes, lost stream, themes, phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest
import redis
from playwright.sync_api import Page, Route, expect

from fleet.access.models import User
from fleet.bus.outbox import HINT_CHANNEL
from fleet.health.models import NodeVerdict
from fleet.inventory.models import Node
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.telemetry.models import NodeHistory
from tests.browser.conftest import Accessible, Site
from tests.builders import a_cluster, a_node, a_workflow, an_incident
from tests.patience import until

Somebody = Callable[..., User]


@pytest.fixture
def fleet(transactional_db: None) -> list[Node]:
    """Two racks of sixteen: one node draining and blocked, one in remediation, four without data."""
    cluster = a_cluster()
    nodes = []
    for rack in ("r01", "r02"):
        for number in range(1, 17):
            name = f"gpu-{rack}-{number:02}"
            kind = {"gpu-r01-02": "unhealthy", "gpu-r02-05": "degraded"}.get(name, "healthy")
            if rack == "r02" and number > 12:
                kind = "unknown"
            state = NodeState.DRAINING if name == "gpu-r01-02" else NodeState.IN_SERVICE
            nodes.append(a_node(cluster, name, rack=rack, verdict=kind, state=state))
    sick = nodes[1]
    NodeVerdict.objects.filter(node=sick).update(reason="GPU 5 fell off the PCIe bus (Xid 79)")
    a_workflow(
        sick, an_incident(sick), state=WorkflowState.BLOCKED, blocked_text="PDB serving/cache allows 0 evictions"
    )
    return nodes


def _hint(broker: redis.Redis, node: Node) -> None:
    body = orjson.dumps([{"topic": "node", "ref": str(node.pk), "node": node.name, "cluster": node.cluster_id}])
    broker.publish(HINT_CHANNEL, body)


def _live(page: Page) -> None:
    expect(page.locator("[data-connection]")).to_have_text("Live")


def test_log_in_leads_to_the_page_that_was_asked_for(site: Site, somebody: Somebody, fleet: list[Node]) -> None:
    somebody("viewer", "correct horse battery")
    page = site.page()
    page.goto("/fleet/?rack=r01")
    page.get_by_label("Name").fill("viewer")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile(r"/fleet/\?rack=r01$"))
    expect(page.locator(".said")).to_contain_text("1 of 32 nodes is unhealthy, 1 degraded, 4 unknown.")


def test_the_map_is_one_tab_stop_with_arrow_keys(site: Site, somebody: Somebody, fleet: list[Node]) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/fleet/")
    page.locator('a.n[tabindex="0"]').focus()
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^gpu-r01-01,"))
    page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^gpu-r01-02,"))
    expect(page.locator("[data-peek]")).to_contain_text("PDB serving/cache allows 0 evictions")
    page.keyboard.press("ArrowDown")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^gpu-r01-0[56],"))
    page.keyboard.press("End")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^gpu-r02-16, unknown"))
    assert page.locator('a.n[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/nodes/gpu-r02-16/"))


def test_a_verdict_changes_in_place_while_one_watches(
    site: Site, somebody: Somebody, fleet: list[Node], broker: redis.Redis
) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/fleet/")
    _live(page)
    page.locator('a.n[aria-label^="gpu-r01-03,"]').focus()
    NodeVerdict.objects.filter(node=fleet[0]).update(verdict="unhealthy", reason="GPU 0 is gone")
    _hint(broker, fleet[0])
    expect(page.locator('a.n.bad[aria-label^="gpu-r01-01,"]')).to_be_visible()
    expect(page.locator(".said")).to_contain_text("2 of 32 nodes are unhealthy")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^gpu-r01-03,"))
    expect(page.locator('tr[data-key="demo/gpu-r01-01"]')).to_have_count(0)
    page.get_by_role("button", name=re.compile("change.* show")).click()
    expect(page.locator('tr[data-key="demo/gpu-r01-01"]')).to_be_visible()


def test_what_changes_before_the_stream_is_open_is_shown(
    site: Site, somebody: Somebody, fleet: list[Node], broker: redis.Redis
) -> None:
    page, held = site.page(somebody("viewer")), list[Route]()
    page.route(re.compile("/live/"), lambda route: held.append(route))
    page.goto("/fleet/")
    expect(page.locator(".said")).to_contain_text("1 of 32 nodes is unhealthy")
    NodeVerdict.objects.filter(node=fleet[0]).update(verdict="unhealthy", reason="GPU 0 is gone")
    _hint(broker, fleet[0])
    until(lambda: page.evaluate("1") and held)  # the driver tells what came while it is called
    held[0].continue_()
    expect(page.locator(".said")).to_contain_text("2 of 32 nodes are unhealthy")


def test_a_lost_stream_is_shown_and_its_return_told(site: Site, somebody: Somebody, fleet: list[Node]) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/fleet/")
    _live(page)
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('pagehide'))")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    expect(page.locator("[data-connection]")).to_have_class(re.compile("off"))
    expect(page.locator("[data-connection]")).to_contain_text("Not live")
    page.context.set_offline(False)
    _live(page)
    site.complaints[:] = [said for said in site.complaints if "ERR_INTERNET_DISCONNECTED" not in said]


def test_the_theme_switches_at_once_and_stays(site: Site, somebody: Somebody, fleet: list[Node]) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/fleet/")
    with page.expect_response(re.compile("/prefs/theme")):
        page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_zone_changes_text_and_nothing_else(site: Site, somebody: Somebody, fleet: list[Node]) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/fleet/")
    first = page.locator("tbody time").first
    instant = first.get_attribute("datetime")
    page.locator('[data-zones].opt input[value="KST"]').check(force=True)
    expect(first).to_have_attribute("title", re.compile("12:00:00 KST$"))
    assert first.get_attribute("datetime") == instant
    page.reload()
    expect(page.locator("tbody time").first).to_have_attribute("title", re.compile("KST$"))


def test_the_table_shows_how_busy_the_gpus_were_and_keeps_it_over_a_live_change(
    site: Site, somebody: Somebody, fleet: list[Node], broker: redis.Redis
) -> None:
    now = SYSTEM_CLOCK.now().replace(second=0, microsecond=0)
    for back in range(60):
        at = now - timedelta(minutes=back)
        data = {"at": [at.timestamp()], "gpu_util": [[80 - back, 82 - back]]}
        NodeHistory.objects.create(cluster_id=fleet[0].cluster_id, node_id=fleet[0].pk, at=at, data=orjson.dumps(data))
    page = site.page(somebody("viewer"))
    page.goto("/fleet/?view=table&sort=node")
    _live(page)
    cell = page.locator('tr[data-key="demo/gpu-r01-01"] [data-spark]')
    expect(cell).to_contain_text("%")
    expect(cell.locator("svg")).to_have_attribute("aria-label", re.compile("in two hours"))
    expect(page.locator('tr[data-key="demo/gpu-r01-03"] [data-spark]')).to_have_text("")
    NodeVerdict.objects.filter(node=fleet[0]).update(verdict="degraded", reason="GPU 0 is hot")
    _hint(broker, fleet[0])
    expect(page.locator('tr[data-key="demo/gpu-r01-01"]')).to_contain_text("GPU 0 is hot")
    expect(cell).to_contain_text("%")


def test_a_phone_sets_theme_and_time_zone_in_the_account_menu(
    site: Site, somebody: Somebody, fleet: list[Node], accessible: Accessible
) -> None:
    page = site.page(somebody("viewer"), width=390, height=844)
    page.goto("/fleet/")
    _live(page)
    page.locator("summary.avatar").click()
    with page.expect_response(re.compile("/prefs/theme")):
        page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator(".narrow").get_by_text("KST").click()
    assert page.evaluate("document.cookie").count("zone=KST") == 1
    accessible(page)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
