"""A person's session with the pages, without a browser.

Decides how to log in and how to read a page as words. Refuses to run scripts: what needs them is tested in Chromium.
"""

from __future__ import annotations

import html
import http.cookiejar
import json
import re
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.S)


@dataclass(slots=True)
class Browser:
    base: str
    opener: urllib.request.OpenerDirector

    def page(self, path: str) -> str:
        with self.opener.open(self.base + path, timeout=20) as answer:
            return str(answer.read().decode())

    def words(self, path: str) -> str:
        """What a person reads: no tags, one space between words."""
        return " ".join(html.unescape(TAG.sub(" ", self.page(path))).split())

    def api(self, path: str) -> Any:
        return json.loads(self.page(f"/api/v1/{path}"))

    def post(self, path: str, **fields: str) -> int:
        token = next(cookie.value for cookie in self._cookies() if cookie.name == "csrftoken")
        body = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": token or ""}).encode()
        request = urllib.request.Request(self.base + path, body, {"Referer": self.base + path})
        with self.opener.open(request, timeout=20) as answer:
            return int(answer.status)

    def _cookies(self) -> http.cookiejar.CookieJar:
        handler = next(h for h in self.opener.handlers if isinstance(h, urllib.request.HTTPCookieProcessor))
        return handler.cookiejar


def log_in(base: str, name: str, password: str) -> Browser:
    jar = http.cookiejar.CookieJar()
    browser = Browser(base, urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)))
    form = TOKEN.search(browser.page("/login/"))
    if form is None:
        raise RuntimeError("the log-in page has no form")
    fields = {"username": name, "password": password, "csrfmiddlewaretoken": form.group(1)}
    request = urllib.request.Request(f"{base}/login/", urllib.parse.urlencode(fields).encode(), {"Referer": base})
    with browser.opener.open(request, timeout=20) as answer:
        if "/login" in answer.url:
            raise RuntimeError("the log-in was refused")
    return browser
