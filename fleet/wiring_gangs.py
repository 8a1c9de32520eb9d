"""From a cluster's settings to what is asked about its gangs beside the API server. Part of `fleet.wiring`.

Decides which credential goes where. Imports adapters lazily. Refuses to judge addresses: whoever calls has.
"""

from __future__ import annotations

from django.conf import settings

from fleet.gangs.dashboards import Place
from fleet.ports.ray import RayDashboard


def ray_dashboard(place: Place, ip: str) -> RayDashboard:
    """The dashboard at a place and an address that were judged; a token for namespaces that may have it alone."""
    from fleet.adapters import ray

    token = str(settings.RAY_TOKEN) if place.gets_token(settings.RAY_TOKEN_NAMESPACES) else ""
    timeout = settings.RAY_TIMEOUT
    return ray.dashboard(ray.Connection(place.url, ip, token, timeout=timeout, patience=3 * timeout))
