"""The one URL table. Decides addresses; views decide the rest."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("dashboard.urls")),
    path("", include("fleet.api.urls")),
]

handler403 = "dashboard.views.errors.forbidden"
handler404 = "dashboard.views.errors.missing"
handler500 = "dashboard.views.errors.fault"
