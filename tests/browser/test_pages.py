"""Every page on a desk and on a phone, and in both themes: WCAG 2.2 AA, nothing wider than the screen, no complaint.

What axe finds depends on the theme by its colours and on the size by what is shown: it looks at each of both once.

With MUSTER_TEST_SHOTS=1 a picture of each is left in `shots`, for people to look at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from fleet.access.models import User
from fleet.tickets.models import Ticket
from tests.browser.conftest import Site
from tests.browser.fleet_of_everything import Everything, everything

Somebody = Callable[..., User]
Accessible = Callable[[Page], None]
SHOTS = Path(__file__).parent / "shots"
PICTURES = bool(os.environ.get("MUSTER_TEST_SHOTS"))
SIZES = {"desk": (1440, 900), "tablet": (768, 1024), "phone": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS = dict(zip(("desk", "phone"), SCHEMES, strict=True))  # what axe looks at
REFUSED = re.compile(r"status of 40[34]")


@pytest.fixture
def fleet(transactional_db: None) -> Everything:
    return everything()


def fits(page: Page) -> bool:
    """Is nothing wider than the window, once charts have taken the new size?"""
    for _ in range(50):
        if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            return True
        page.wait_for_timeout(100)
    return False


def pictures(page: Page, name: str) -> None:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.screenshot(path=SHOTS / f"{name}.{scheme}.png", full_page=True)


def look_at(site: Site, page: Page, addresses: dict[str, str], accessible: Accessible, live: str = "Live") -> None:
    """Each page once, then in each size and both themes; pages do not need a reload for that."""
    for name, address in addresses.items():
        page.goto(address)
        if page.locator("[data-connection]").count():
            expect(page.locator("[data-connection]")).to_have_text(live)
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            assert fits(page), f"{name} is wider than a {size}"
            if PICTURES:
                pictures(page, f"{name}.{size}")
            if size in LOOKS:
                page.emulate_media(color_scheme=LOOKS[size], reduced_motion="reduce")
                try:
                    accessible(page)
                except AssertionError as found:
                    raise AssertionError(f"{name}, {size}, {LOOKS[size]}: {found}") from None
    site.complaints[:] = [said for said in site.complaints if not REFUSED.search(said)]


def test_the_fleet(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    addresses = {
        "fleet": "/fleet/",
        "fleet-pool": "/fleet/?group=pool",
        "fleet-leaf-state": "/fleet/?group=leaf&fill=state",
        "table": "/fleet/?view=table",
    }
    look_at(site, site.page(somebody("viewer")), addresses, accessible)


def test_nodes(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    addresses = {"node": "/nodes/gpu-r01-01/", "node-well": "/nodes/gpu-r01-02/", "node-unknown": "/nodes/gpu-r02-05/"}
    look_at(site, site.page(somebody("operator")), addresses, accessible)


def test_workflows(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    addresses = {"workflows": "/workflows/"}
    for state in ("blocked", "running", "repair", "ended", "planned", "waiting"):
        addresses[f"workflow-{state}"] = f"/workflows/{getattr(fleet, state).pk}/"
    look_at(site, site.page(somebody("approver")), addresses, accessible)


def test_playbooks(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    addresses = {"playbooks": "/playbooks/", "playbooks-asked": "/playbooks/?action=reboot_node&cause=xid-79"}
    look_at(site, site.page(somebody("viewer")), addresses, accessible)


def test_pages_in_korean(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    page = site.page(somebody("operator"))
    page.context.set_extra_http_headers({"Accept-Language": "ko"})
    addresses = {
        "ko-fleet": "/fleet/", "ko-node": "/nodes/gpu-r01-01/", "ko-workflow": f"/workflows/{fleet.blocked.pk}/",
        "ko-workflows": "/workflows/", "ko-playbooks": "/playbooks/",
    }  # fmt: skip
    look_at(site, page, addresses, accessible, live="실시간")


def test_incidents_and_tickets(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    tickets = dict(Ticket.objects.order_by("pk").values_list("state", "pk"))
    addresses = {
        "incidents": "/incidents/",
        "offenders": "/offenders/",
        "incident": f"/incidents/{fleet.blocked.incident_id}/",
        "tickets": "/tickets/",
        "ticket": f"/tickets/{tickets['open']}/",
        "ticket-closed": f"/tickets/{tickets['closed']}/",
    }
    look_at(site, site.page(somebody("operator")), addresses, accessible)


def test_the_rest(site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible) -> None:
    look_at(site, site.page(), {"login": "/login/"}, accessible)
    refused = f"/workflows/{fleet.blocked.pk}/retry/"
    addresses = {"rules": "/rules/", "audit": "/audit/", "not-allowed": refused, "not-found": "/nowhere/"}
    page = site.page(somebody("viewer"))
    look_at(site, page, addresses, accessible)
    page.goto(refused)
    expect(page.locator(".said")).to_contain_text("This needs the role operator")
    site.complaints[:] = [said for said in site.complaints if not REFUSED.search(said)]


def test_an_empty_site_names_the_next_command(site: Site, somebody: Somebody, accessible: Accessible) -> None:
    nobody = site.page()
    nobody.goto("/login/")
    expect(nobody.locator("main")).to_contain_text("manage.py user add NAME --role admin")
    places = ("fleet", "incidents", "workflows", "tickets", "audit")
    page = site.page(somebody("viewer"))
    look_at(site, page, {f"empty-{place}": f"/{place}/" for place in places}, accessible)
    page.goto("/fleet/")
    expect(page.get_by_text("No cluster is registered.")).to_be_visible()
    for place in places[:-1]:
        page.goto(f"/{place}/")
        expect(page.locator(".empty")).to_contain_text("manage.py cluster add NAME --kubeconfig FILE")
