"""A scripted API server for the fault tests, and adapters that talk to it with short waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.adapters.kubernetes.watch import Tuning
from tests.adapters.kubernetes.scripted import Script, kubeconfig, serving

FAST = Tuning(watch_seconds=5.0, silence_margin=1.0, first_wait=0.02, longest_wait=0.2)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def server(script: Script) -> Iterator[str]:
    with serving(script) as address:
        yield address


@pytest.fixture
def api(server: str, tmp_path: Path) -> ApiServer:
    return ApiServer(kubeconfig(tmp_path, server), None, frozenset())


@pytest.fixture
def reader(api: ApiServer) -> KubernetesReader:
    return KubernetesReader(api, tuning=FAST)


@pytest.fixture
def actor(api: ApiServer) -> KubernetesActor:
    return KubernetesActor(api)
