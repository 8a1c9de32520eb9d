"""Addresses of the API and of the probes.

Decides that the API's views are open to the middleware, because the API itself asks who calls (session or token),
and of which parts it is made.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from fleet.access.decorators import public
from fleet.api import probes
from fleet.api.acts import router as acts
from fleet.api.batches import router as batches
from fleet.api.gang_asks import router as gang_asks
from fleet.api.gangs import router as gangs
from fleet.api.guards import router as guards
from fleet.api.incidents import router as incidents
from fleet.api.v1 import api
from fleet.api.waiting import router as waiting
from fleet.api.workflows import router as workflows

api.add_router("", workflows)
api.add_router("", incidents)
api.add_router("", waiting)
api.add_router("", guards)
api.add_router("", acts)
api.add_router("", batches)
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
