"""`manage.py demo`: register the simulated cluster and a log-in for it.

Decides what the demo has that a real site makes by hand: the cluster `demo` in mode `automate`, its inventory, a token
for its log shipper, a user. Doing it again changes nothing; a mode that somebody has set since stays. Refuses to invent
a data centre: the simulator must already run.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from fleet.access.models import Role
from fleet.access.selectors import token_for
from fleet.access.services import ensure_user
from fleet.inventory.models import Cluster, Mode
from fleet.ops.plan import DEMO_CLUSTER
from fleet.ops.processes import write_atomically
from fleet.ports.clock import SYSTEM_CLOCK

BY = "demo"


class Command(BaseCommand):
    help = "Register the simulated fleet as the cluster demo, with its inventory, a push token and a log-in."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        simulator = settings.VAR / "simulator"
        if not (simulator / "kubeconfig").is_file():
            raise CommandError(f"{simulator / 'kubeconfig'} is missing: start `manage.py simulate` first")
        self._register(simulator)
        how = {"cluster": DEMO_CLUSTER, "repin": True, "expect": True}
        call_command("inventory", "import", str(simulator / "inventory.csv"), **how)
        self._token(settings.VAR / "run" / f"push-{DEMO_CLUSTER}.token")
        self._user(settings.VAR / "run" / "demo.password")

    def _register(self, simulator: Path) -> None:
        known = Cluster.objects.filter(name=DEMO_CLUSTER, removed_at=None).exists()
        credentials = ["--kubeconfig", str(simulator / "kubeconfig")]
        credentials += ["--act-kubeconfig", str(simulator / "act.kubeconfig")]
        if (simulator / "targets.yml").is_file():
            credentials += ["--targets", str(simulator / "targets.yml")]
        mode = [] if known else ["--mode", Mode.AUTOMATE]
        call_command("cluster", "add", DEMO_CLUSTER, *credentials, *mode)

    def _token(self, path: Path) -> None:
        if path.is_file() and token_for(path.read_text().strip(), "push", SYSTEM_CLOCK.now()):
            return
        call_command("token", "create", "--scope", "push", "--cluster", DEMO_CLUSTER, "--out", str(path))

    def _user(self, path: Path) -> None:
        """A password that stays the same for as long as `var` does."""
        password = os.environ.get("MUSTER_DEMO_PASSWORD") or (path.read_text().strip() if path.is_file() else "")
        password = password or secrets.token_urlsafe(9)
        write_atomically(path, password, 0o600)
        ensure_user(name="demo", password=password, role=Role.ADMIN, now=SYSTEM_CLOCK.now(), by=BY)
