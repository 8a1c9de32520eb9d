"""Addresses of the pages about one thing, and of their lists."""

from __future__ import annotations

from django.urls import URLPattern, path

from dashboard.views import (
    audit,
    gang,
    incident,
    node,
    offenders,
    playbooks,
    policy,
    queues,
    room,
    rules,
    suspicion,
    ticket,
    what_if,
    workflow,
)

urlpatterns: list[URLPattern] = [
    path("nodes/<str:name>/", node.node, name="node"),
    path("nodes/<str:name>/charts/<slug:kind>.json", node.chart, name="node_chart"),
    path("workflows/", workflow.index, name="workflows"),
    path("workflows/<int:pk>/", workflow.detail, name="workflow"),
    path("workflows/<int:pk>/retry/", workflow.retry, name="workflow_retry"),
    path("workflows/<int:pk>/skip/", workflow.skip, name="workflow_skip"),
    path("workflows/<int:pk>/force/", workflow.force, name="workflow_force"),
    path("workflows/<int:pk>/hurry/", workflow.hurry, name="workflow_hurry"),
    path("workflows/<int:pk>/abort/", workflow.abort, name="workflow_abort"),
    path("workflows/<int:pk>/approve/", workflow.approve, name="workflow_approve"),
    path("incidents/", incident.index, name="incidents"),
    path("incidents/<int:pk>/", incident.detail, name="incident"),
    path("incidents/<int:pk>/charts/<int:place>.json", suspicion.chart, name="incident_chart"),
    path("incidents/<int:pk>/<slug:act>/", incident.handle, name="incident_handle"),
    path("queues/", queues.index, name="queues"),
    path("queues/quota/", queues.quota, name="quota"),
    path("queues/room/", room.room, name="room"),
    path("queues/what-if/", what_if.what_if, name="what_if"),
    path("gangs/", queues.by_key, name="gang_by_key"),
    path("gangs/<int:pk>/", gang.detail, name="gang"),
    path("offenders/", offenders.index, name="offenders"),
    path("playbooks/", playbooks.index, name="playbooks"),
    path("rules/", rules.index, name="rules"),
    path("policy/", policy.index, name="policy"),
    path("policy/preview/", policy.preview, name="policy_preview"),
    path("policy/apply/", policy.apply, name="policy_apply"),
    path("policy/versions/<int:pk>/", policy.version, name="policy_version"),
    path("policy/versions/<int:pk>/withdraw/", policy.withdraw, name="policy_withdraw"),
    path("policy/breakers/<str:cluster>/reset/", policy.reset_breaker, name="breaker_reset"),
    path("tickets/", ticket.index, name="tickets"),
    path("tickets/<int:pk>/", ticket.detail, name="ticket"),
    path("tickets/<int:pk>/close/", ticket.close, name="ticket_close"),
    path("audit/", audit.index, name="audit"),
    path("audit.csv", audit.stream, name="audit_csv"),
]
