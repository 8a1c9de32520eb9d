"""Every page on a desk and on a phone, and in both themes: WCAG 2.2 AA, nothing wider than the screen, no complaint."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from fleet.access.models import User
from fleet.tickets.models import Ticket
from tests.browser.conftest import Accessible, Site
from tests.browser.fleet_of_everything import Everything, everything
from tests.browser.looking import REFUSED, look_at

Somebody = Callable[..., User]


@pytest.fixture
def fleet(transactional_db: None) -> Everything:
    return everything()


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
    look_at(site, page, addresses, accessible, live="실시간", colours=False)


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
