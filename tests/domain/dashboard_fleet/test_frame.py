"""The frame: who gets in, what is denied and in which words, display choices, the switch."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
import redis
from django.test import Client, override_settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from dashboard import attempts
from dashboard.csp import POLICY
from fleet.access.models import User
from fleet.audit.models import AuditRow
from fleet.bus import outbox
from fleet.inventory.models import Cluster
from fleet.policy.models import Switch
from tests.builders import a_cluster, a_node, an_incident
from tests.domain.dashboard_fleet.conftest import PASSWORD

pytestmark = pytest.mark.django_db
Person = Callable[..., User]


@pytest.fixture(autouse=True)
def own_counters(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = redis.Redis.from_url(redis_url)
    monkeypatch.setattr(attempts, "connection", lambda: client)


def test_strangers_are_sent_to_the_log_in_and_back(client: Client, person: Person) -> None:
    person("viewer")
    assert client.get("/fleet/?rack=r01")["Location"] == "/login/?next=/fleet/%3Frack%3Dr01"
    answer = client.post("/login/?next=/fleet/", {"username": "viewer", "password": PASSWORD, "next": "/fleet/"})
    assert answer["Location"] == "/fleet/"


def test_a_person_without_a_role_reads_which_one_is_missing(person: Person) -> None:
    client = Client()
    client.force_login(person(""))
    answer = client.get("/fleet/")
    assert answer.status_code == 403
    assert "This needs the role viewer" in answer.content.decode()


def test_the_eleventh_wrong_password_is_told_to_wait_and_so_is_the_right_one(client: Client, person: Person) -> None:
    person("viewer")
    for _ in range(attempts.LIMIT):
        assert client.post("/login/", {"username": "viewer", "password": "wrong"}).status_code == 200
    answer = client.post("/login/", {"username": "Viewer", "password": PASSWORD})
    assert answer.status_code == 429
    assert "Wait five minutes" in answer.content.decode()
    other = client.post("/login/", {"username": "viewer", "password": PASSWORD}, REMOTE_ADDR="10.0.0.9")
    assert other.status_code == 302


def test_failed_log_ins_are_counted_even_while_redis_is_away(
    client: Client, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("viewer", name="alone")
    away = redis.Redis(port=1, socket_connect_timeout=0.2, retry=Retry(NoBackoff(), 0))
    monkeypatch.setattr(attempts, "connection", lambda: away)
    for _ in range(attempts.LIMIT):
        client.post("/login/", {"username": "alone", "password": "wrong"})
    assert client.post("/login/", {"username": "alone", "password": PASSWORD}).status_code == 429


def test_every_page_carries_the_policy(client: Client, viewer: Client) -> None:
    for answer in (client.get("/login/"), viewer.get("/fleet/"), viewer.get("/nowhere")):
        assert answer["Content-Security-Policy"] == POLICY


def test_an_address_where_nothing_lies_is_in_the_same_frame(viewer: Client) -> None:
    answer = viewer.get("/nowhere")
    assert answer.status_code == 404
    assert "Nothing lies at" in answer.content.decode()
    assert 'class="nav"' in answer.content.decode()


@override_settings(DEBUG_PROPAGATE_EXCEPTIONS=False)
def test_a_fault_of_ours_prints_its_number(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("dashboard.views.fleet.rows", broken)
    client = Client(raise_request_exception=False)
    client.force_login(person("viewer"))
    answer = client.get("/fleet/")
    assert answer.status_code == 500
    assert "under the number <code>" in answer.content.decode()
    assert "boom" not in answer.content.decode()


def test_the_theme_holds_before_and_after_the_log_in(client: Client, person: Person) -> None:
    client.post("/prefs/theme", {"theme": "dark", "next": "/login/"})
    assert 'data-theme="dark"' in client.get("/login/").content.decode()
    user = person("viewer")
    client.force_login(user)
    answer = client.post("/prefs/theme", {"theme": "light", "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"
    user.refresh_from_db()
    assert user.theme == "light"
    assert 'data-theme="light"' in client.get("/fleet/").content.decode()
    assert client.post("/prefs/theme", {"theme": "pink"}).status_code == 400


def test_one_click_stops_everything_and_lifting_it_takes_a_reason(viewer: Client, person: Person) -> None:
    assert viewer.post("/switch/", {"stopped": "1"}).status_code == 403
    operator = Client()
    operator.force_login(person("operator"))
    assert operator.post("/switch/", {"stopped": "1", "next": "/rules/"})["Location"] == "/rules/"
    assert Switch.objects.get().stopped and AuditRow.objects.filter(action="switch.stop", actor="operator").exists()
    operator.post("/switch/", {"stopped": "1", "reason": "power work in hall 2"})
    assert Switch.objects.get().reason == "power work in hall 2"
    operator.post("/switch/", {"stopped": "0", "reason": " "})
    assert Switch.objects.get().stopped
    operator.post("/switch/", {"stopped": "0", "reason": "the work is done"})
    assert not Switch.objects.get().stopped


def test_every_page_says_that_all_is_stopped_by_whom_why_and_how_to_resume(viewer: Client, person: Person) -> None:
    an_incident(a_node(a_cluster()))
    operator = Client()
    operator.force_login(person("operator"))
    pages = (
        "/fleet/",
        "/nodes/gpu-r01-01/",
        "/incidents/",
        "/workflows/",
        "/tickets/",
        "/audit/",
        "/rules/",
        "/nowhere",
    )
    for page in pages:
        assert 'id="stopped"' not in viewer.get(page).content.decode()
    operator.post("/switch/", {"stopped": "1"})
    assert "No reason was given yet." in viewer.get("/fleet/").content.decode()
    operator.post("/switch/", {"stopped": "1", "reason": "smoke in hall 2"})
    for page in pages:
        text = viewer.get(page).content.decode()
        assert "All new disruption is stopped by operator" in text and "smoke in hall 2" in text, page
        assert "manage.py resume --reason" in text and "Let disruption start again" not in text
    assert "Let disruption start again" in operator.get("/fleet/").content.decode()
    assert "smoke in hall 2" in viewer.get("/frame/stopped", {"at": "/fleet/"}).content.decode()


def test_the_navigation_shows_places_that_exist_with_their_numbers(viewer: Client) -> None:
    an_incident(a_node(a_cluster()))
    page = viewer.get("/fleet/").content.decode()
    assert 'href="/fleet/" aria-current="page"' in page
    for word in ("Fabric", "Storage"):
        assert word not in page


def test_the_jump_field_opens_what_it_names(viewer: Client) -> None:
    a_node(a_cluster(), "gpu-r01-01")
    assert viewer.get("/jump/", {"q": "gpu-r01-01"})["Location"] == "/nodes/gpu-r01-01/?cluster=demo"
    assert viewer.get("/jump/", {"q": "inc-4"})["Location"] == "/incidents/4/"
    assert viewer.get("/jump/", {"q": "r01"})["Location"] == "/fleet/?q=r01"


def test_hints_use_the_channel_that_streams_listen_to() -> None:
    assert outbox.HINT_CHANNEL == "muster:hints"


def test_the_mode_in_the_frame_is_read_anew_when_it_changes(viewer: Client) -> None:
    cluster = a_cluster(mode="observe")
    page = viewer.get("/fleet/").content.decode()
    assert 'data-live="mode cluster" data-src="/frame/mode"' in page
    assert "Observe" in viewer.get("/frame/mode").content.decode()
    Cluster.objects.filter(pk=cluster.pk).update(mode="automate")
    assert "Automate" in viewer.get("/frame/mode").content.decode()


def test_theme_and_time_zone_can_be_chosen_on_a_phone_too(viewer: Client) -> None:
    page = viewer.get("/fleet/").content.decode()
    menu = page.partition('class="narrow"')[2].partition('action="/logout/"')[0]
    assert 'name="theme"' in menu and 'value="KST"' in menu and 'name="tz-inmenu"' in menu


def test_pages_leave_packed_for_whoever_takes_that_and_streams_as_they_are(viewer: Client) -> None:
    cluster = a_cluster()
    for number in range(40):
        a_node(cluster, f"gpu-{number}")
    plain = viewer.get("/fleet/?view=table")
    packed = viewer.get("/fleet/?view=table", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain and packed["Content-Encoding"] == "gzip"
    assert "gpu-39" in gzip.decompress(packed.content).decode() and len(packed.content) < len(plain.content) / 4
    stream = viewer.get("/audit.csv", headers={"Accept-Encoding": "gzip"})
    assert stream.streaming and "Content-Encoding" not in stream
