"""What is listed for Prometheus, and the push port under TLS."""

from __future__ import annotations

import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from fleet.observer.discovery import Discovery
from fleet.observer.front import Front, Tls, listen
from fleet.observer.judge import Judge
from fleet.observer.lane import Lane
from fleet.observer.push import Push, Refusals
from fleet.observer.scraping import Scraper
from fleet.observer.session import Session
from fleet.observer.world import World
from fleet.ports.cluster import Change
from fleet.telemetry.intake import Intake
from tests.certificates import certificates
from tests.domain.inventory.seen import a_node_seen, a_pod_seen

pytestmark = pytest.mark.django_db(transaction=True)


def a_world() -> World:
    world = World()
    world.node_change(Change("added", a_node_seen()))
    notes = {"prometheus.io/scrape": "true", "prometheus.io/port": "9400"}
    pod = a_pod_seen("dcgm-x", kind="daemonset", owner="DaemonSet/dcgm-exporter", annotations=notes, pod_ip="10.1.0.1")
    world.pod_change(Change("added", pod))
    return world


def discovery(session: Session, world: World) -> Discovery:
    return Discovery(session, world, world.exporters)


def test_every_exporter_is_listed_with_its_scopes(session: Session) -> None:
    (listed,) = discovery(session, a_world()).targets()
    assert listed["targets"] == ["10.1.0.1:9400"]
    labels = listed["labels"]
    assert (labels["node"], labels["job"], labels["cluster"]) == ("gpu-r01-01", "dcgm", "demo")
    assert (labels["__scheme__"], labels["__metrics_path__"]) == ("http", "/metrics")
    assert (labels["__meta_muster_rack"], labels["__meta_muster_leaf"]) == ("r01", "leaf-01")
    assert discovery(session, World()).targets() == []


def test_the_lists_are_whole_however_they_are_asked_for(session: Session) -> None:
    assert orjson.loads(orjson.dumps(discovery(session, a_world()).targets()))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return certificates(tmp_path)


@pytest.fixture
def front(session: Session, judge: Judge, keys: Path) -> Iterator[Front]:
    push = Push(session, Lane(session, judge, lambda: None), Refusals(), list)
    scraper = Scraper(session, Intake(judge.frame), dict, lambda: 0, lambda: False)
    tls = Tls(str(keys / "ours.pem"), str(keys / "ours.key"), str(keys / "theirs.pem"))
    front = Front(session, push, scraper, listen("127.0.0.1", 29570), tls)
    thread = front.start()
    url = session.run_dir / f"observer-{session.name}.url"
    waited = threading.Event()
    for _ in range(100):
        if url.exists():
            break
        waited.wait(0.05)
    yield front
    session.end("The test is over.")
    thread.join(5)


def ask(front: Front, keys: Path, client: str = "") -> int:
    context = ssl.create_default_context(cafile=str(keys / "ours.pem"))
    if client:
        context.load_cert_chain(keys / f"{client}.pem", keys / f"{client}.key")
    return int(urllib.request.urlopen(f"{front.url}/healthz", timeout=5, context=context).status)


def test_only_clients_of_the_named_authority_may_connect(front: Front, keys: Path) -> None:
    assert front.url.startswith("https://")
    assert ask(front, keys, "theirs") == 200
    for client in ("", "ours"):
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            ask(front, keys, client)


def test_half_a_configuration_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="MUSTER_PUSH_TLS_CERT"):
        Tls(clients="ca.pem")
    assert Tls().options() == {}
