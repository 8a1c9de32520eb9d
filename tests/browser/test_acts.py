"""The pages of what people ask for, agree to and plan: in both themes, on desk and phone, and by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time

import pytest
from playwright.sync_api import expect

from fleet.access.models import User
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import bulk, maintenance, manual
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Batch, Workflow
from fleet.policy.models import Approval
from fleet.policy.windows import OPENING, Window
from fleet.ports.clock import SYSTEM_CLOCK
from tests.browser.conftest import Accessible, Site
from tests.browser.fleet_of_everything import Everything, everything
from tests.browser.looking import look_at
from tests.builders import a_person

Somebody = Callable[..., User]


@pytest.fixture
def fleet(transactional_db: None) -> Everything:
    a_person("jiwoo", "admin")
    return everything()


def a_batch(action: str, rack: str, pace: Pace, state: str) -> Batch:
    cluster, now = Cluster.objects.get(), SYSTEM_CLOCK.now()
    ids = list(Node.objects.filter(rack=rack).values_list("pk", flat=True))
    wanted = bulk.Wanted(cluster, ids, action, "jiwoo", "New BIOS, ticket 4711", {"admin"}, {"rack": rack}, pace)
    batch = bulk.draft(wanted, now)
    if state != "draft":
        bulk.start(batch.pk, batch.plan_hash, "jiwoo", now)
    if state == "running":
        for person in ("minseo", "noah"):
            bulk.vote(batch.pk, person, True, "agreed at the stand-up", now)
        maintenance.sweep(SYSTEM_CLOCK)
    return Batch.objects.get(pk=batch.pk)


def test_pages_with_something_on_them(
    site: Site, somebody: Somebody, fleet: Everything, accessible: Accessible
) -> None:
    window = Window(OPENING, "", "Asia/Seoul", frozenset({1, 2, 6}), time(2), 120)
    Node.objects.filter(name="gpu-r02-16").update(gang="train/llama-70b")
    draft = a_batch("reboot", "r01", Pace(), "draft")
    running = a_batch("hold", "r02", Pace(at_once=4, stop_after=2), "running")
    planned = a_batch("drain", "r02", Pace(2, 3, window), "waiting")
    manual.request([Node.objects.get(name="gpu-r01-16").pk], "reboot", "jiwoo", "Hangs", SYSTEM_CLOCK.now())
    page = site.page(somebody("approver"))
    addresses = {
        "approvals": "/approvals/",
        "approvals-decided": "/approvals/?state=decided",
        "bulk": "/bulk/",
        "bulk-form": "/bulk/new/?rack=r01&verdict=healthy",
        "bulk-draft": f"/bulk/{draft.pk}/",
        "bulk-running": f"/bulk/{running.pk}/",
        "maintenance": "/maintenance/",
        "maintenance-form": "/maintenance/new/",
        "maintenance-waiting": f"/bulk/{planned.pk}/",
        "node-acts": "/nodes/gpu-r02-02/",
        "node-acts-busy": "/nodes/gpu-r01-01/",
    }
    look_at(site, page, addresses, accessible)
    page.goto("/nodes/gpu-r01-12/")
    page.locator(".doit summary", has_text="Reboot").click()
    expect(page.get_by_text("Confirm: reboot gpu-r01-12")).to_be_visible()
    accessible(page)


def test_pages_with_nothing_on_them(site: Site, somebody: Somebody, accessible: Accessible) -> None:
    addresses = {"empty-approvals": "/approvals/", "empty-bulk": "/bulk/", "empty-maintenance": "/maintenance/"}
    look_at(site, site.page(somebody("operator")), addresses, accessible)


def test_a_reboot_is_asked_for_and_agreed_to_by_keyboard_alone(
    site: Site, somebody: Somebody, fleet: Everything
) -> None:
    ann, bo = site.page(somebody("operator")), site.page(somebody("approver"))
    bo.goto("/approvals/")
    expect(bo.locator("[data-connection]")).to_have_text("Live")
    ann.goto("/nodes/gpu-r02-02/")
    reboot = ann.locator(".doit summary", has_text="Reboot")
    expect(reboot).to_be_visible()
    reboot.focus()
    ann.keyboard.press("Enter")
    ann.keyboard.press("Tab")
    ann.keyboard.type("Hangs in POST")
    ann.keyboard.press("Tab")
    ann.keyboard.press("Enter")
    expect(ann.locator(".said-back")).to_contain_text("waits for another person")
    expect(bo.locator(".nav .p-approvals .n")).to_have_text("1")  # live
    expect(bo.locator("[data-fresh]")).to_be_visible()  # the list does not move by itself
    bo.locator("[data-fresh]").press("Enter")
    bo.locator(".asks input[name=reason]").focus()
    bo.keyboard.type("Seen on its console")
    bo.keyboard.press("Tab")
    bo.keyboard.press("Enter")
    expect(bo.locator(".said-back")).to_contain_text("Approved.")
    assert Approval.objects.get().state == "approved"
    assert Workflow.objects.filter(playbook="manual-reboot").get().approved_hash
