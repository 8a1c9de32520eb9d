"""What every page's frame shows.

Decides the navigation's counts, the mode badge and the state of the kill switch. Refuses more than two queries.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, Any]:
    return {}
