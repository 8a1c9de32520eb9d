"""The policy's pages and the kill switch in a browser: both themes, desk and phone, empty and full."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time, timedelta

import pytest
from playwright.sync_api import expect

from fleet.access.models import User
from fleet.inventory.models import Cluster, Node
from fleet.policy import versions
from fleet.policy.document import text_of
from fleet.policy.models import Breaker, Cap, Claim, Switch, Window
from fleet.ports.clock import SYSTEM_CLOCK
from tests.browser.conftest import Accessible, Site
from tests.browser.fleet_of_everything import Everything, everything
from tests.browser.looking import fits, look_at, picture, resize

Somebody = Callable[..., User]


@pytest.fixture
def fleet(transactional_db: None) -> Everything:
    return everything()


def a_policy(fleet: Everything) -> None:
    """Limits of every kind with something in use, windows, an open breaker, and a history with one that waits."""
    now = SYSTEM_CLOCK.now()
    cluster = Cluster.objects.get()
    nodes = list(Node.objects.order_by("name"))
    Node.objects.filter(pk__in=[node.pk for node in nodes[:8]]).update(tenant="vision")
    for number, node in enumerate(nodes[:2]):
        for kind in ("hold", "in_flight"):
            Claim.objects.create(
                cluster_id=cluster.pk, kind=kind, node_id=node.pk, workflow_id=9000 + number, claimed_at=now
            )
    Cap.objects.filter(kind__in=["rate", "floor"]).delete()
    for kind, scope, fields in (
        ("hold", "fleet", {"percent": 20}),
        ("take_out", "rack", {"absolute": 2}),
        ("in_flight", "rack", {"absolute": 2}),
        ("rate", "fleet", {"absolute": 9, "window": 3600}),
        ("floor", "tenant", {"percent": 80}),
    ):
        Cap.objects.update_or_create(cluster_id=None, kind=kind, scope=scope, defaults=fields)
    for name, kind, zone in (("quarter end", "freeze", "Asia/Seoul"), ("nights", "opening", "UTC")):
        Window.objects.create(kind=kind, name=name, zone=zone, start=time(2), minutes=240, created_at=now)
    text = "70 of 256 nodes asked to be held within 10 min; 64 may. So many faults at once may be one fault."
    Breaker.objects.create(cluster_id=cluster.pk, state="open", since=now - timedelta(minutes=9), text=text)
    old = text_of(versions.current())
    versions.propose(versions.read(old.replace("hold: {fleet: 20%}", "hold: {fleet: 15%}"), "x"), "ann", "less", now)
    loose = text_of(versions.current()).replace("hold: {fleet: 15%}", "hold: {fleet: 30%}")
    versions.propose(versions.read(loose, "x"), "ann", "the new racks are watched well", now)


def test_the_policy_full_and_as_it_came(
    site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible
) -> None:
    viewer, admin = site.page(somebody("viewer")), site.page(somebody("admin"))
    look_at(site, viewer, {"policy-usual": "/policy/"}, accessible)
    a_policy(fleet)
    last = versions.PolicyVersion.objects.latest("pk").pk
    look_at(site, admin, {"policy": "/policy/", "policy-version": f"/policy/versions/{last}/"}, accessible)


def test_a_form_leads_over_what_would_change_to_a_version(
    site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible
) -> None:
    page = site.page(somebody("policy"))
    page.goto("/policy/")
    page.get_by_label("In flight, rack", exact=True).fill("1")
    page.get_by_role("button", name="See what would change").first.click()
    expect(page.locator("h1")).to_have_text("What would change")
    accessible(page)
    picture(page, "policy-preview.desk.light")
    resize(page, "phone")
    page.emulate_media(color_scheme="dark")
    accessible(page)
    fits(page)
    picture(page, "policy-preview.phone.dark")
    page.get_by_label("Reason, kept in the history").fill("r07 runs hot")
    page.get_by_role("button", name="Apply now").click()
    expect(page.locator(".said-back")).to_contain_text("is in force")
    assert Cap.objects.get(kind="in_flight", scope="rack").absolute == 1
    page.goto("/policy/")
    page.locator("summary", has_text="The whole document").click()
    page.locator("#doc").fill("version: 1\ndefault:\n  caps: {hold: {rack: many}}\n")
    page.get_by_role("button", name="See what would change").last.click()
    expect(page.locator("pre").first).to_contain_text("the text:3: default.caps.hold.rack cannot be 'many'")
    accessible(page)
    site.complaints[:] = [said for said in site.complaints if "422" not in said]


def test_one_click_stops_all_and_every_open_page_says_so(
    site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible
) -> None:
    other, page = site.page(somebody("viewer")), site.page(somebody("operator"))
    other.goto("/tickets/")
    expect(other.locator("[data-connection]")).to_have_text("Live")
    page.goto("/incidents/")
    page.get_by_role("button", name="Stop all").click()
    expect(page.locator("#stopped")).to_contain_text("All new disruption is stopped by operator")
    assert page.url.endswith("/incidents/") and Switch.objects.get().stopped
    expect(other.locator("#stopped")).to_contain_text("stopped by operator")
    look_at(site, page, {"stopped": "/fleet/", "stopped-workflow": f"/workflows/{fleet.blocked.pk}/"}, accessible)
    page.locator("summary", has_text="Resume").click()
    page.locator("#resume-why").fill("it was a drill")
    page.get_by_role("button", name="Let disruption start again").click()
    expect(page.locator("#stopped")).to_have_count(0)
    assert not Switch.objects.get().stopped
