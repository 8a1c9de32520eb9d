"""Addresses of what people ask for, agree to and plan."""

from __future__ import annotations

from django.urls import URLPattern, path

from dashboard.views import acts, approvals, bulk

urlpatterns: list[URLPattern] = [
    path("nodes/<str:name>/acts/", acts.acts, name="node_acts"),
    path("nodes/<str:name>/acts/<slug:action>/", acts.act, name="node_act"),
    path("approvals/", approvals.index, name="approvals"),
    path("approvals/<int:pk>/vote/", approvals.vote, name="approval_vote"),
    path("bulk/", bulk.index, {"windowed": False}, name="bulk"),
    path("bulk/new/", bulk.new, {"windowed": False}, name="bulk_new"),
    path("maintenance/", bulk.index, {"windowed": True}, name="maintenance"),
    path("maintenance/new/", bulk.new, {"windowed": True}, name="maintenance_new"),
    path("bulk/<int:pk>/", bulk.detail, name="batch"),
    path("maintenance/<int:pk>/", bulk.detail, name="maintenance_batch"),
    path("bulk/<int:pk>/<slug:act>/", bulk.act, name="batch_act"),
]
