"""Addresses of the API and of the probes.

Decides that the API's views are open to the middleware, because the API itself asks who calls (session or token),
and that what people ask for and agree to, and gangs and queues, are part of it.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from fleet.access.decorators import public
from fleet.api import probes
from fleet.api.acts import router as acts
from fleet.api.gang_asks import router as gang_asks
from fleet.api.gangs import router as gangs
from fleet.api.v1 import api

api.add_router("", acts)
api.add_router("", gang_asks)  # before the gangs, whose address takes any key
api.add_router("", gangs)
_patterns, _app, _namespace = api.urls
for _pattern in _patterns:
    if _pattern.callback is not None:
        public(_pattern.callback)

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("metrics", probes.metrics, name="metrics"),
    path("api/v1/", (_patterns, _app, _namespace)),
]
