"""Connections that go nowhere, expire, lack a right or break in the middle: said in words, mended by themselves."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from fleet.ops.listeners import first_free
from tests.labs.conftest import Fleet
from tests.labs.live import until


def _copy(fleet: Fleet, name: str, server: str = "", token: str = "") -> str:
    """The demo's kubeconfig with one thing wrong."""
    document = yaml.safe_load((fleet.live.var / "simulator" / "kubeconfig").read_text())
    if server:
        document["clusters"][0]["cluster"]["server"] = server
    if token:
        document["users"][0]["user"]["token"] = token
    path = fleet.live.folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@contextmanager
def _registered(fleet: Fleet, name: str, kubeconfig: str) -> Iterator[str]:
    """The cluster exists meanwhile; yields what `cluster add` said."""
    done = fleet.live.manage("cluster", "add", name, "--kubeconfig", kubeconfig, "--selector", "*")
    assert done.returncode == 0, done.stderr
    try:
        yield done.stdout
    finally:
        assert fleet.live.manage("cluster", "remove", name).returncode == 0


def _on_the_fleet_page(fleet: Fleet, *words: str, seconds: float = 40) -> None:
    assert until(lambda: all(word in fleet.web.words("/fleet/") for word in words), seconds, 0.5) is not None, (
        fleet.web.words("/fleet/")[:1500]
    )


def _gone_from_the_fleet_page(fleet: Fleet, words: str, seconds: float = 40) -> None:
    assert until(lambda: words not in fleet.web.words("/fleet/"), seconds, 0.5) is not None


def test_a_kubeconfig_that_points_nowhere_is_said_at_once_and_on_the_page(fleet: Fleet) -> None:
    nowhere = f"http://127.0.0.1:{first_free(39000)}"
    with _registered(fleet, "nowhere", _copy(fleet, "nowhere", server=nowhere)) as said:
        assert f"{nowhere} cannot be reached" in said
        _on_the_fleet_page(fleet, "nowhere:", f"{nowhere} cannot be reached")
    _gone_from_the_fleet_page(fleet, "nowhere:")


def test_a_credential_that_is_refused_is_said_at_once_and_on_the_page(fleet: Fleet) -> None:
    with _registered(fleet, "expired", _copy(fleet, "expired", token="once-valid")) as said:
        assert "refuses the credential (401" in said
        _on_the_fleet_page(fleet, "expired:", "refuses the credential (401")


def test_a_credential_that_expires_is_stated_and_its_return_goes_on_with_the_work(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    boot = live.boot_id(node)
    live.inject("xid79", node, 1)
    assert until(lambda: live.cordoned(node), 10) is not None
    live.inject("token_expired")
    live.inject("watch_cut")
    _on_the_fleet_page(fleet, "demo:", "refuses the credential (401")
    code = "credential_refused"
    assert until(lambda: live.workflows(node)[-1]["blocked_code"] == code, 30, 0.3) is not None, live.workflows(node)
    live.inject("token_expired", clear=True)
    _gone_from_the_fleet_page(fleet, "demo: http://")
    assert until(lambda: live.healed(node, boot), 180, 0.5) is not None, live.why(node)
    assert live.boots(node) == 1


def test_a_right_that_lacks_is_named_with_verb_and_resource(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    boot = live.boot_id(node)
    live.inject("no_patch_right")
    act = str(live.var / "simulator" / "act.kubeconfig")
    assert "may not patch nodes" in live.manage("cluster", "add", "demo", "--act-kubeconfig", act).stdout
    live.inject("xid79", node, 1)
    assert until(lambda: bool(live.workflows(node)) and live.workflows(node)[-1]["blocked_code"] == "missing_right", 20)
    told = live.why(node)["blocked"]
    assert "patch nodes" in told["text"] and told["until"]
    assert "patch nodes" in fleet.web.words(f"/nodes/{node}/")
    live.inject("no_patch_right", clear=True)
    assert until(lambda: live.healed(node, boot), 240, 0.5) is not None, live.why(node)
    assert live.boots(node) == 1


@pytest.mark.parametrize("fault", ["watch_cut", "watch_gone"])
def test_a_watch_that_breaks_in_the_middle_loses_nothing(fleet: Fleet, fault: str) -> None:
    live, node, next_one = fleet.live, fleet.fresh(), fleet.fresh()
    boots = {name: live.boot_id(name) for name in (node, next_one)}
    live.inject("xid79", node, 1)
    for _ in range(3):
        live.inject(fault)
        until(lambda: False, 1)
    live.inject("xid79", next_one, 1)
    live.inject(fault)
    for name, boot in boots.items():
        assert until(lambda name=name, boot=boot: live.healed(name, boot), 180, 0.5) is not None, live.why(name)
        assert live.boots(name) == 1
    _gone_from_the_fleet_page(fleet, "demo:")


def _bmc(fleet: Fleet, node: str, change: str) -> None:
    fleet.live.write(f"{change} where node_id = (select id from inventory_node where name = %s)", node)


def _ticket(fleet: Fleet, node: str) -> str:
    rows = fleet.live.rows(
        "select t.reason from tickets_ticket t join inventory_node n on n.id = t.node_id where n.name = %s", node
    )
    return str(rows[0]["reason"]) if rows else ""


def test_a_node_without_a_bmc_address_gets_a_ticket_that_names_the_command(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    _bmc(fleet, node, "delete from inventory_bmc")
    live.inject("xid79", node, 1)
    assert until(lambda: bool(_ticket(fleet, node)), 60, 0.3) is not None, live.why(node)
    assert "manage.py inventory import" in _ticket(fleet, node)
    assert "no address known" in fleet.web.words(f"/nodes/{node}/")
    assert live.boots(node) == 0


@contextmanager
def _stranger(folder: Path) -> Iterator[str]:
    """A TLS server with a certificate that nobody has signed; it answers 200 to everything."""
    subject = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=bmc.example"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", "req", *subject, *files], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_bmc_with_a_wrong_certificate_gets_no_call_and_a_ticket(fleet: Fleet, tmp_path: Path) -> None:
    live, node = fleet.live, fleet.fresh()
    with _stranger(tmp_path) as address:
        _bmc(fleet, node, f"update inventory_bmc set address = '{address}'")
        live.inject("xid79", node, 1)
        assert until(lambda: bool(_ticket(fleet, node)), 90, 0.3) is not None, live.why(node)
    assert "certificate" in _ticket(fleet, node)
    assert "certificate" in fleet.web.words(f"/nodes/{node}/")
    assert live.boots(node) == 0
