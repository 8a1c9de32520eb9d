"""Addresses of the pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from dashboard.live import live
from dashboard.views import auth, fleet, frame, palette, prefs, use

urlpatterns: list[URLPattern | URLResolver] = [
    path("", fleet.home, name="home"),
    path("fleet/", fleet.fleet, name="fleet"),
    path("fleet.csv", fleet.export, name="fleet_csv"),
    path("fleet/use.json", use.use, name="fleet_use"),
    path("jump/", palette.jump, name="jump"),
    path("login/", auth.log_in, name="login"),
    path("logout/", auth.log_out, name="logout"),
    path("prefs/theme", prefs.theme, name="theme"),
    path("prefs/language", prefs.language, name="language"),
    path("frame/nav", frame.frame, {"part": "nav"}, name="frame_nav"),
    path("frame/mode", frame.frame, {"part": "mode"}, name="frame_mode"),
    path("frame/switch", frame.frame, {"part": "switch"}, name="frame_switch"),
    path("frame/stopped", frame.frame, {"part": "stopped"}, name="frame_stopped"),
    path("switch/", frame.switch, name="switch"),
    path("live/", live, name="live"),
    path("", include("dashboard.views.details_urls")),
    path("", include("dashboard.views.acts_urls")),
]
