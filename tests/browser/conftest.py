"""Chromium on the pages that the real web process serves.

Decides that any console error, policy violation or request off this origin fails a test, and that nothing moves on its
own: pages are asked for with less motion. Refuses to download a browser: where Chromium is missing these tests are
skipped and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the synchronous driver runs a loop of its own

from django.test import Client, override_settings
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from fleet.access.models import Grant, User
from tests.patience import PATIENCE
from tests.web import web_process

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).parent / "vendor" / "axe" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FRAME = [".top", ".nav"]  # the same on every page
COLOURS = "color-contrast"  # half of what axe costs
RUN_AXE = """([tags, without, rules]) => axe.run({include: [["html"]], exclude: without.map(part => [part])},
    {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"], rules}).then(found => found.violations)"""
NOTE_SWAPS = "window.swapped = new WeakSet(); addEventListener('muster:swapped', e => swapped.add(e.target))"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("Chromium is not installed: the browser tests were not run")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE * 1000)
        yield browser
        browser.close()


@dataclass
class Site:
    """The pages that run, and what the browser complained of."""

    base: str
    browser: Browser
    complaints: list[str]
    contexts: list[BrowserContext]

    def page(self, user: User | None = None, scheme: str = "light", width: int = 1440, height: int = 900) -> Page:
        """A fresh page, logged in as `user`."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
            base_url=self.base,
        )
        context.add_init_script(NOTE_SWAPS)
        context.set_default_timeout(PATIENCE * 1000)
        self.contexts.append(context)
        if user is not None:
            client = Client()
            client.force_login(user)
            session = client.cookies["sessionid"].value
            context.add_cookies([{"name": "sessionid", "value": session, "url": self.base}])
        page = context.new_page()
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        page.on("request", lambda request: self._asked(request.url))
        return page

    def close(self) -> None:
        """Fails if anything was complained of."""
        for context in self.contexts:
            context.close()
        assert not self.complaints, self.complaints

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"console {kind}: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.complaints.append(f"request off this origin: {url}")


@pytest.fixture(scope="session")
def served(
    chromium: Browser, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """One web process for all browser tests of a worker: to start one takes seconds."""
    log = tmp_path_factory.mktemp("web") / "web.log"
    with web_process(os.environ["REDIS_URL"], log) as running:
        yield running


@pytest.fixture
def site(chromium: Browser, served: tuple[str, subprocess.Popen[bytes]], transactional_db: None) -> Iterator[Site]:
    """The pages on the test's database. At the end nothing may have been complained of."""
    found = Site(served[0], chromium, [], [])
    yield found
    found.close()


@pytest.fixture
def somebody(transactional_db: None) -> Callable[..., User]:
    """`somebody("operator")`, whose password, if one is named, the server itself can check: that takes it a second."""

    def make(role: str, password: str | None = None) -> User:
        with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.PBKDF2PasswordHasher"]):
            user = User.objects.create_user(username=role, password=password)
        Grant.objects.create(user=user, role=role)
        return user

    return make


class Accessible:
    """`accessible(page)` fails on what axe finds against WCAG 2.2 AA."""

    def __init__(self) -> None:
        self._brings: set[Page] = set()

    def bring(self, page: Page) -> None:
        """The page loads axe with each document from here on: cheaper than to hand it over each time."""
        if page not in self._brings:
            self._brings.add(page)
            page.add_init_script(path=AXE)

    def __call__(self, page: Page, *, frame: bool = True, colours: bool = True) -> None:
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(AXE.read_text(encoding="utf-8"))
        without = [] if frame else FRAME
        rules = {} if colours else {COLOURS: {"enabled": False}}
        bad: list[dict[str, Any]] = page.evaluate(RUN_AXE, [RULES, without, rules])
        found = [(rule["id"], [(node["target"], node["failureSummary"]) for node in rule["nodes"][:3]]) for rule in bad]
        assert not found, found


@pytest.fixture
def accessible() -> Accessible:
    return Accessible()
