"""One fault, end to end, as a person sees it: every process runs, a node breaks, the pages tell it while it heals.

Each step but the first begins only when it was seen to be the current one: none can be over before it is looked at, and
the demo can be as fast as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site
from tests.browser.gates import Gates, gates
from tests.browser.whole import Muster, running_muster

NODE = "gpu-r01-03"
STEPS = ["Hold", "Drain", "Reboot", "Validate", "Soak", "Return to service"]
GATED = range(1, len(STEPS))
HEALS_WITHIN = 300_000  # milliseconds for one step: on a busy machine a budget or a time-out may make it wait

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
    calm = {"MUSTER_DEMO_NODES": "32", "MUSTER_DEMO_SCENARIO": "calm", "MUSTER_DEMO_SPEED": "10"}
    with running_muster("--demo", **calm, MUSTER_SCRAPE_INTERVAL="2") as found:
        yield found


@pytest.fixture
def screen(muster: Muster, chromium: Browser) -> Iterator[Page]:
    """A browser in front of it. At the end nothing may have been complained of, by page, policy or network."""
    site = Site(muster.base, chromium, [], [])
    yield site.page()
    site.close()


@pytest.fixture
def gated(muster: Muster) -> Iterator[Gates]:
    with gates(muster.var, GATED) as found:
        yield found


def test_a_fault_is_seen_healed_and_remembered(muster: Muster, gated: Gates, screen: Page) -> None:
    log_in(screen, muster.password)
    expect(screen.locator(".said")).to_have_text("All 32 nodes are healthy. Nothing needs you now.")
    expect(screen.locator("a.n.ok")).to_have_count(32)
    live_from_now_on(screen)
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
    follow_the_workflow(screen, gated)
    remembered(screen)


def live_from_now_on(screen: Page) -> None:
    """What changes now must come by the stream: `window.notReloaded` would be gone with the page."""
    expect(screen.locator("[data-connection]")).to_have_text("Live")
    screen.evaluate("window.notReloaded = true")


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


def follow_the_workflow(screen: Page, gated: Gates) -> None:
    """Held, it waits to be drained; then each step is seen as the current one before it may begin, and none twice."""
    expect(screen.locator("ol.steps li.done h3")).to_have_text(re.compile("^Hold"))
    live_from_now_on(screen)
    screen.evaluate(WATCH_STEPS)
    for index in GATED:
        expect(screen.locator("li.cur h3")).to_have_text(re.compile(f"^{STEPS[index]}"), timeout=HEALS_WITHIN)
        gated.open(index)
    expect(screen.locator(".said")).to_contain_text("Succeeded at", timeout=HEALS_WITHIN)
    expect(screen.locator("ol.steps li.done")).to_have_count(len(STEPS))
    assert screen.evaluate("window.notReloaded"), "the steps changed, but by a reload"
    assert screen.evaluate("window.stepsSeen") == STEPS[1:]
    labels = screen.locator("ol.steps li.done h3").all_inner_texts()
    assert [label.strip() for label in labels] == STEPS
    expect(screen.locator("ol.steps li.done", has_text="Reboot").first).to_contain_text("new boot id")


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
