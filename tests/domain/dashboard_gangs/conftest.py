"""People who look, and a clock that stands."""

from __future__ import annotations

from tests.domain.dashboard_details.conftest import client_of, cluster, now, viewer

__all__ = ["client_of", "cluster", "now", "viewer"]
