"""Other owners are told with what they do: by the command, by the API and on the node's page."""

from __future__ import annotations

import pytest
from django.test import Client

from fleet.inventory.models import Node
from fleet.inventory.owners import kept, on_node
from fleet.readmodels.why import why
from tests.builders import T0, a_cluster, a_node, an_incident
from tests.domain.inventory.seen import a_node_seen

pytestmark = pytest.mark.django_db
UPGRADING = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}


def an_upgrading_node() -> Node:
    marks = on_node(a_node_seen(labels=UPGRADING))
    return a_node(a_cluster(), "gpu-001", owners=kept(marks, True, (), T0), foreign_hold=True, unschedulable=True)


def test_why_names_the_owner_and_what_muster_does() -> None:
    node = an_upgrading_node()
    answer = why("", node.name, T0)
    assert "NVIDIA GPU Operator upgrades its driver (drain-required)." in answer["text"]
    (owner,) = answer["owners"]
    assert (owner["name"], owner["since"]) == ("NVIDIA GPU Operator", T0.isoformat())
    assert owner["muster"] == "Muster waits until that has ended."


def test_an_incident_on_a_node_that_is_being_deleted_says_why_nothing_is_planned() -> None:
    marks = on_node(a_node_seen(taints=(("karpenter.sh/disrupted", "", "NoSchedule"),)))
    node = a_node(a_cluster(), "gpu-001", owners=kept(marks, False, (), T0))
    an_incident(node)
    blocked = why("", node.name, T0)["blocked"]
    assert (blocked["reason"], blocked["text"]) == ("owner", "Karpenter deletes it; nothing more is done to it.")


def test_a_node_without_others_tells_of_none() -> None:
    assert why("", a_node(a_cluster(), "gpu-001").name, T0)["owners"] == []


def test_the_page_lists_the_owner(admin_client: Client) -> None:
    node = an_upgrading_node()
    text = admin_client.get(f"/nodes/{node.name}/").content.decode()
    assert "Other owners" in text and "upgrades its driver (drain-required)" in text
    assert "Muster waits until that has ended." in text and T0.strftime("%H:%M:%S") in text
