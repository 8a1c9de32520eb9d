"""The pages of gangs and queues: on a desk and a phone, in both themes, in Korean, empty and full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from fleet.access.models import User
from tests.browser.conftest import Accessible, Site
from tests.browser.fleet_of_everything import everything
from tests.browser.gangs_of_everything import Gangs, gangs
from tests.browser.looking import look_at, whole
from tests.builders import a_cluster
from tests.gang_answers import answering
from tests.patience import until

Somebody = Callable[..., User]


@pytest.fixture
def waiting(transactional_db: None) -> Iterator[Gangs]:
    found = gangs(everything())
    with answering(found.cluster.pk, found.board):
        yield found


def addresses(found: Gangs, before: str = "") -> dict[str, str]:
    return {
        f"{before}queues": "/queues/",
        f"{before}queues-by-queue": "/queues/?by=queue&state=waits",
        f"{before}quota": "/queues/quota/",
        f"{before}room": "/queues/room/",
        f"{before}what-if": "/queues/what-if/",
        f"{before}what-if-return": "/queues/what-if/?kind=return&nodes=gpu-r01-01",
        f"{before}what-if-drain": "/queues/what-if/?kind=drain&nodes=gpu-r01-02",
        f"{before}gang": f"/gangs/{found.partial.pk}/",
        f"{before}gang-running": f"/gangs/{found.running.pk}/",
        f"{before}gang-gone": f"/gangs/{found.gone.pk}/",
    }


def test_gangs_and_queues(site: Site, somebody: Somebody, waiting: Gangs, accessible: Accessible) -> None:
    look_at(site, site.page(somebody("viewer")), addresses(waiting), accessible)


def test_gangs_in_korean(site: Site, somebody: Somebody, waiting: Gangs, accessible: Accessible) -> None:
    page = site.page(somebody("viewer"))
    page.context.set_extra_http_headers({"Accept-Language": "ko"})
    look_at(site, page, addresses(waiting, "ko-"), accessible, live="실시간", colours=False)


def test_without_gangs_each_page_says_what_to_do(site: Site, somebody: Somebody, accessible: Accessible) -> None:
    places = {"empty-queues": "/queues/", "empty-quota": "/queues/quota/", "empty-room": "/queues/room/",
              "empty-what-if": "/queues/what-if/"}  # fmt: skip
    page = site.page(somebody("viewer"))
    look_at(site, page, places, accessible)
    page.goto("/queues/")
    expect(page.locator(".empty").first).to_contain_text("manage.py cluster add NAME --kubeconfig FILE")
    a_cluster("bare")
    look_at(site, page, {f"bare-{name}": address for name, address in places.items()}, accessible)


def answered(page: Page, shown: Locator) -> None:
    """A page waits a second or two for the observer, here a thread of the test; on a busy machine it is asked again."""

    def told() -> bool:
        whole(page)
        if shown.is_visible():
            return True
        page.reload()
        return False

    until(told)


def test_the_room_and_the_what_ifs_come_from_the_observer(site: Site, somebody: Somebody, waiting: Gangs) -> None:
    page = site.page(somebody("viewer"))
    page.goto("/queues/room/")
    answered(page, page.get_by_text("Nodes by free GPUs"))
    page.goto("/queues/what-if/")
    page.get_by_label("Nodes, by name").fill("gpu-r01-01")
    page.get_by_role("button", name="Ask").first.click()
    expect(page).to_have_url(re.compile(r"[?&]nodes=gpu-r01-01"))
    answered(page, page.locator(".said", has_text="It brings 8 GPUs"))
