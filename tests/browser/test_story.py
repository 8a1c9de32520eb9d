"""One fault, end to end, as a person sees it: every process runs, a node breaks, the pages tell it while it heals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site
from tests.browser.whole import Muster, running_muster

NODE = "gpu-r01-03"
STEPS = ["Hold", "Drain", "Reboot", "Validate", "Soak", "Return to service"]

# Notes which step is the current one, each time that the live page changes it.
WATCH_STEPS = """() => {
  const seen = window.stepsSeen = [];
  const look = () => {
    const label = document.querySelector("li.cur h3")?.firstChild?.textContent.trim();
    if (label && seen.at(-1) !== label) seen.push(label);
  };
  look();
  const all = {subtree: true, childList: true, characterData: true};
  new MutationObserver(look).observe(document.querySelector("main"), all);
}"""


@pytest.fixture
def muster(chromium: Browser) -> Iterator[Muster]:
    calm = {"MUSTER_DEMO_NODES": "32", "MUSTER_DEMO_SCENARIO": "calm", "MUSTER_DEMO_SPEED": "4"}
    with running_muster("--demo", **calm, MUSTER_SCRAPE_INTERVAL="2") as found:
        yield found


@pytest.fixture
def screen(muster: Muster, chromium: Browser) -> Iterator[Page]:
    """A browser in front of it. At the end nothing may have been complained of, by page, policy or network."""
    site = Site(muster.base, chromium, [], [])
    yield site.page()
    site.close()


def test_a_fault_is_seen_healed_and_remembered(muster: Muster, screen: Page) -> None:
    log_in(screen, muster.password)
    expect(screen.locator(".said")).to_have_text("All 32 nodes are healthy. Nothing needs you now.")
    expect(screen.locator("a.n.ok")).to_have_count(32)
    expect(screen.locator("[data-connection]")).to_have_text("Live")

    screen.evaluate("window.notReloaded = true")
    muster.manage("inject", "xid79", "--node", NODE, "--device", "3")
    broken = screen.locator(f'a.n.bad[aria-label^="{NODE},"]')
    expect(broken).to_have_attribute("aria-label", re.compile("unhealthy"))
    expect(broken.locator(".pip")).to_have_count(1)
    expect(screen.locator(".said")).to_contain_text("1 of 32 nodes is unhealthy. 1 takes no new work")
    assert screen.evaluate("window.notReloaded"), "the map changed, but by a reload"

    open_from_the_map_by_keyboard(screen)
    said = screen.locator(".said")
    expect(said).to_contain_text("because GPU 3 reported Xid 79: GPU fell off the bus")
    expect(said).to_contain_text(re.compile(r"^\w+ since \d\d:\d\d"))
    expect(said).to_contain_text(re.compile("Next: .+"))

    screen.get_by_role("link", name=re.compile("^Workflow WF-")).click()
    seen = follow_the_workflow(screen)
    assert seen == [step for step in STEPS if step in seen], f"steps came out of order: {seen}"
    assert {"Reboot", "Validate", "Soak"} <= set(seen), f"not seen while they ran: {seen}"
    remembered(screen)


def log_in(screen: Page, password: str) -> None:
    screen.goto("/")
    screen.get_by_label("Name").fill("demo")
    screen.get_by_label("Password").fill(password)
    screen.get_by_role("button", name="Log in").click()
    expect(screen).to_have_url(re.compile("/fleet/$"))


def open_from_the_map_by_keyboard(screen: Page) -> None:
    """The map is one tab stop; arrows go to the node, the strip below tells it, Enter opens it."""
    focused = screen.locator(":focus")
    screen.keyboard.press("Tab")
    for _ in range(80):
        if focused.count() and (focused.get_attribute("aria-label") or "").startswith("gpu-"):
            break
        screen.keyboard.press("Tab")
    screen.keyboard.press("Home")
    screen.keyboard.press("ArrowRight")
    screen.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("aria-label", re.compile(f"^{NODE},"))
    expect(screen.locator("[data-peek]")).to_contain_text(NODE)
    screen.keyboard.press("Enter")
    expect(screen).to_have_url(re.compile(f"/nodes/{NODE}/"))


def follow_the_workflow(screen: Page) -> list[str]:
    """The steps that were current while it was looked at, in the order in which they were."""
    expect(screen.locator("ol.steps li h3").first).to_have_text(re.compile("^Hold"))
    screen.evaluate(WATCH_STEPS)
    screen.evaluate("window.notReloaded = true")
    expect(screen.locator(".said")).to_contain_text("Succeeded at")
    expect(screen.locator("ol.steps li.done")).to_have_count(len(STEPS))
    assert screen.evaluate("window.notReloaded"), "the steps changed, but by a reload"
    labels = screen.locator("ol.steps li.done h3").all_inner_texts()
    assert [label.strip() for label in labels] == STEPS
    expect(screen.locator("ol.steps li.done", has_text="Reboot").first).to_contain_text("new boot id")
    found: list[str] = screen.evaluate("window.stepsSeen")
    return found


def remembered(screen: Page) -> None:
    """The incident is resolved, the node serves again, and the log has it all."""
    screen.get_by_role("link", name=re.compile("^INC-")).first.click()
    expect(screen.locator(".head")).to_contain_text("Resolved")

    screen.goto(f"/nodes/{NODE}/")
    expect(screen.locator(".said")).to_contain_text("In service since")
    expect(screen.locator(".said")).to_contain_text("healthy")
    expect(screen.locator(".facts")).to_contain_text("resolved")

    screen.goto(f"/audit/?node={NODE}")
    actions = screen.locator("tbody td:nth-child(3)").all_inner_texts()
    assert {"incident.open", "intent.hold", "intent.reset", "incident.resolve"} <= set(actions), actions
    assert actions.count("intent.reset") == 1

    screen.get_by_role("link", name="Fleet", exact=True).click()
    expect(screen.locator(".said")).to_have_text("All 32 nodes are healthy. Nothing needs you now.")
