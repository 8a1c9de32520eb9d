"""A cluster's YuniKorn: registered, asked, and told what is missing."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fleet import wiring, wiring_gangs
from fleet.inventory.addresses import check
from fleet.inventory.models import Cluster
from tests.adapters.prometheus.fake_api import FakeApi, running
from tests.adapters.yunikorn.shapes import a_queue, an_application
from tests.adapters.yunikorn.test_reading import ACTIVE, NODES, QUEUES, body

pytestmark = pytest.mark.django_db


def add(*options: str) -> str:
    out = StringIO()
    call_command("cluster", "add", "east", *options, stdout=out)
    return out.getvalue()


def test_it_is_registered_by_its_address_and_asked_with_the_others() -> None:
    told = {
        "/ws/v1/partitions": body([{"name": "default"}]), ACTIVE: body([an_application()]), QUEUES: body(a_queue()),
        NODES: b"<html>",
    }  # fmt: skip
    with running(FakeApi(at=told)) as api:
        said = add("--yunikorn", api.url)
        cluster = Cluster.objects.get(name="east")
        assert cluster.yunikorn_url == api.url and "Nodes are not known" in said
        (poll,) = wiring.gang_polls(cluster)
        assert (poll.system, len(poll.read().objects)) == ("yunikorn", 1)
        assert wiring.gang_polls(cluster) == [poll], "its connection is kept"
        add("--yunikorn", "")
        assert wiring.gang_polls(Cluster.objects.get(name="east")) == []
        assert wiring_gangs.yunikorn_missing(Cluster.objects.get(name="east")) == []


def test_one_that_does_not_answer_is_said_at_once() -> None:
    assert "cannot be reached" in add("--yunikorn", "http://127.0.0.1:9")


@pytest.mark.parametrize("url", ["yunikorn:9080", "ftp://x", "http://", "http://u:p@x", "http://x?a=b", "http://x:0"])
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(ValueError, match="YuniKorn"):
        check("YuniKorn", url)
    with pytest.raises(CommandError):
        add("--yunikorn", url)
