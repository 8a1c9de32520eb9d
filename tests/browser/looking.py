"""Looking at pages: on a desk, a tablet and a phone, and in both themes.

Decides that each page fits each size and is accessible in each theme. What axe finds depends on the theme by its
colours and on the size by what is shown: it looks at each of both once. The frame around the pages is the same on all
of them, so each size of it is looked at once; and colours are the same in each language, so in a second one axe looks
at a page once, on a desk and on a phone by turns. Refuses to look before every part that a page reads for itself has
come.

With MUSTER_TEST_SHOTS=1 a picture of each is left in `shots`, for people to look at.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, expect

from tests.browser.conftest import Accessible, Site
from tests.patience import until

SHOTS = Path(__file__).parent / "shots"
PICTURES = bool(os.environ.get("MUSTER_TEST_SHOTS"))
SIZES = {"desk": (1440, 900), "tablet": (768, 1024), "phone": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS = dict(zip(("desk", "phone"), SCHEMES, strict=True))  # what axe looks at
REFUSED = re.compile(r"status of 40[34]")
FITS = "document.documentElement.scrollWidth <= innerWidth"
CAME = "[...document.querySelectorAll('[data-live-now][data-src]')].every(part => swapped.has(part))"

SPILLS = """() => [...document.querySelectorAll("main *, .top *")].flatMap(part => {
    const said = [...part.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!said.length || part.closest(".vh, svg, pre, textarea, select") || !part.checkVisibility()) return [];
    let box = part;
    while (getComputedStyle(box).display === "inline") box = box.parentElement;
    const {left, right} = box.getBoundingClientRect(), range = new Range();
    return said.filter(node => {
        range.selectNodeContents(node);
        const text = range.getBoundingClientRect();
        return text.right > right + 4 || text.left < left - 4;  // less than any gap between boxes
    }).map(node => node.textContent.trim());
})"""


def whole(page: Page) -> None:
    """Every part that the page reads for itself has come."""
    until(lambda: page.evaluate(CAME))


def fits(page: Page) -> None:
    """Nothing is wider than the window, once charts have taken the new size, and no text than the box it stands in."""
    until(lambda: page.evaluate(FITS))
    spilt: list[str] = page.evaluate(SPILLS)
    assert not spilt, spilt


def resize(page: Page, size: str) -> None:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def look_at(
    site: Site, page: Page, addresses: dict[str, str], accessible: Accessible, live: str = "Live", colours: bool = True
) -> None:
    """Each page once, then in each size and both themes; pages do not need a reload for that."""
    accessible.bring(page)
    framed: set[str] = set()
    for turn, (name, address) in enumerate(addresses.items()):
        page.goto(address)
        connection = page.locator("[data-connection]")
        if connection.count():
            expect(connection).to_have_text(live)
        whole(page)
        looks = list(LOOKS) if colours else [list(LOOKS)[turn % 2]]
        for size in list(SIZES)[:: -1 if turn % 2 else 1]:  # it begins as the last one ended
            resize(page, size)
            try:
                fits(page)
            except AssertionError as found:
                raise AssertionError(f"{name} is wider than a {size}: {found}") from None
            for scheme in SCHEMES if PICTURES else ():
                page.emulate_media(color_scheme=scheme)
                picture(page, f"{name}.{size}.{scheme}")
            if size in looks:
                page.emulate_media(color_scheme=LOOKS[size])
                try:
                    accessible(page, frame=size not in framed, colours=colours)
                except AssertionError as found:
                    raise AssertionError(f"{name}, {size}, {LOOKS[size]}: {found}") from None
                framed.add(size)
    site.complaints[:] = [said for said in site.complaints if not REFUSED.search(said)]
