"""A kubeconfig that cannot be used says why; one that would run a program is refused."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

import pytest

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes import client
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.ports.errors import MissingRight, PermanentError, TemporaryError
from tests.adapters.kubernetes.scripted import Script, answer, hang, kubeconfig, page, serving, status, stream
from tests.adapters.redfish.fake_bmc import PEM
from tests.patience import left_in_time

NOWHERE = "https://127.0.0.1:9"


def refusal(path: str, context: str | None = None, allow: frozenset[str] = frozenset()) -> PermanentError:
    with pytest.raises(PermanentError) as caught:
        kubernetes.reader(path, context, allow_exec=allow)
    return caught.value


def test_a_missing_empty_or_odd_file_is_named(tmp_path: Path) -> None:
    assert "does not exist" in str(refusal(str(tmp_path / "none")))
    for content in ("", "[]", "a: [", "current-context: x"):
        (tmp_path / "odd").write_text(content)
        error = refusal(str(tmp_path / "odd"))
        assert error.code == "kubeconfig" and str(tmp_path / "odd") in str(error)


def test_an_unknown_context_tells_the_known_ones(tmp_path: Path) -> None:
    assert "it has: test" in str(refusal(kubeconfig(tmp_path, NOWHERE), "prod"))


def test_without_a_kubeconfig_or_a_pod_there_is_nothing_to_read_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(PermanentError) as caught:
        kubernetes.reader(None)
    assert "service account" in str(caught.value)


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "get-token", "apiVersion": "client.authentication.k8s.io/v1"}},
        {"exec": "nonsense"},
        {"auth-provider": {"name": "gcp", "config": {"cmd-path": "/usr/bin/gcloud config"}}},
        {"auth-provider": {"name": "oidc"}},
        {"token": "t", "exec": {"command": "get-token"}},
    ],
)
def test_programs_are_refused(tmp_path: Path, user: dict[str, Any]) -> None:
    error = refusal(kubeconfig(tmp_path, NOWHERE, user))
    assert error.code == "kubeconfig_exec"
    assert "administrator" in str(error)


def test_an_allowed_program_gives_the_credential(tmp_path: Path, script: Script, server: str) -> None:
    program = tmp_path / "get-token"
    credential = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'
    )
    program.write_text(f"#!/bin/sh\necho '{credential}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"command": str(program), "apiVersion": "client.authentication.k8s.io/v1"}}
    script.on("GET /version", answer(200, {"gitVersion": "v1.36.3"}))
    path = kubeconfig(tmp_path, server, user)
    assert refusal(path, allow=frozenset({"other"})).code == "kubeconfig_exec"
    assert kubernetes.reader(path, allow_exec=frozenset({str(program)})).server_version() == "v1.36.3"
    assert script.asked[0].headers["Authorization"] == "Bearer from-plugin"


def test_a_program_that_fails_gives_no_credential(tmp_path: Path) -> None:
    user = {"exec": {"command": "/bin/false", "apiVersion": "client.authentication.k8s.io/v1"}}
    error = refusal(kubeconfig(tmp_path, NOWHERE, user), allow=frozenset({"/bin/false"}))
    assert "gave no credential" in str(error)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    reader = kubernetes.reader(kubeconfig(tmp_path, NOWHERE))
    with pytest.raises(TemporaryError) as caught:
        reader.check()
    assert caught.value.code == "api_unreachable" and NOWHERE in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_permanent(tmp_path: Path, script: Script) -> None:
    script.on("GET /version", answer(200, {"gitVersion": "v1.36.3"}))
    with serving(script, PEM) as secure:
        with pytest.raises(PermanentError) as caught:
            kubernetes.reader(kubeconfig(tmp_path, secure)).server_version()
        assert caught.value.code == "api_certificate" and "certificate-authority" in str(caught.value)
        trusting = kubeconfig(tmp_path, secure, ca=str(PEM))
        assert kubernetes.reader(trusting).server_version() == "v1.36.3"


def test_a_stream_over_tls_stops_in_time(tmp_path: Path, script: Script) -> None:
    script.on("GET /api/v1/nodes", page([], "9"))
    script.on("WATCH /api/v1/nodes", stream(then="hang"))
    with serving(script, PEM) as secure:
        reader = kubernetes.reader(kubeconfig(tmp_path, secure, ca=str(PEM)))
        started = time.monotonic()
        with left_in_time():
            kinds = [c.kind for c in reader.watch_nodes(lambda: time.monotonic() - started > 0.5, lambda state: None)]
    assert kinds == ["synced"]


def test_a_missing_authority_file_is_named(tmp_path: Path) -> None:
    error = refusal(kubeconfig(tmp_path, NOWHERE, ca="/none/ca.crt"))
    assert "/none/ca.crt" in str(error)


def test_an_expired_credential_is_permanent(script: Script, reader: KubernetesReader) -> None:
    script.on("GET /api/v1/nodes", status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(PermanentError) as caught:
        reader.nodes()
    assert caught.value.code == "credential_refused" and "expired" in str(caught.value)
    assert "a-token" not in str(caught.value)


def test_a_missing_right_names_verb_and_resource_of_the_server(script: Script, reader: KubernetesReader) -> None:
    said = 'pods is forbidden: User "muster" cannot list resource "pods" in API group "" at the cluster scope'
    script.on("GET /api/v1/pods", status(403, said, "Forbidden"))
    with pytest.raises(MissingRight) as caught:
        reader.pods_on("gpu-1")
    assert (caught.value.verb, caught.value.resource) == ("list", "pods")
    assert "http://127.0.0.1" in str(caught.value) and "muster" in str(caught.value)


def test_a_rotated_credential_is_read_again(
    tmp_path: Path, script: Script, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RELOAD_SECONDS", 0.0)
    api = ApiServer(kubeconfig(tmp_path, server), None, frozenset())
    kubeconfig(tmp_path, server, {"token": "b-token"})
    script.on("GET /api/v1/nodes", status(401, "Unauthorized"), page([], "1"))
    assert KubernetesReader(api).nodes() == []
    assert [one.headers["Authorization"] for one in script.asked] == ["Bearer a-token", "Bearer b-token"]


def test_a_server_that_hangs_is_left_in_time(
    script: Script, reader: KubernetesReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    script.on("GET /version", hang)
    with pytest.raises(TemporaryError) as caught:
        reader.server_version()
    assert caught.value.code == "api_timeout"
