"""`manage.py observe NAME`: the observer of one cluster.

Decides its surroundings: where its files lie, on which port it is pushed to, and that each of its threads has one
database connection of its own. Refuses a name that is not registered.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connections

from fleet import settings_env as env
from fleet.inventory import selectors
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError


def own_connections() -> None:
    """Long-lived threads keep a connection each; a pool's own back-off would only delay them after an outage."""
    connections.settings["default"]["OPTIONS"].pop("pool", None)


class Command(BaseCommand):
    help = "Watches, scrapes and judges one cluster."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--once", action="store_true", help="one full pass, then a JSON summary")

    def handle(self, *args: Any, **options: Any) -> None:
        own_connections()
        cluster = self._cluster(options["name"], patient=not options["once"])
        from fleet.observer import once, process

        run_dir = settings.VAR / "run"
        if options["once"]:
            try:
                summary = once.one_pass(cluster, SYSTEM_CLOCK, run_dir, settings.SCRAPE_INTERVAL)
            except (once.Busy, PortError) as error:
                raise CommandError(str(error)) from error
            self.stdout.write(orjson.dumps(summary).decode())
            return
        push = (env.text("MUSTER_PUSH_HOST", "127.0.0.1"), settings.PUSH_PORT)
        try:
            tls = process.Tls(
                env.text("MUSTER_PUSH_TLS_CERT", ""),
                env.text("MUSTER_PUSH_TLS_KEY", ""),
                env.text("MUSTER_PUSH_TLS_CLIENTS", ""),
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        sys.exit(process.observe(cluster, SYSTEM_CLOCK, run_dir, settings.SCRAPE_INTERVAL, push, tls))

    def _cluster(self, name: str, patient: bool) -> Cluster:
        """The registration; an observer that starts before its database waits for it."""
        while True:
            try:
                return selectors.cluster_named(name)
            except selectors.UnknownCluster as error:
                raise CommandError(str(error)) from error
            except OperationalError as error:
                connections["default"].close()
                said = str(error).strip().splitlines()[0]
                if not patient:
                    raise CommandError(f"The database does not answer: {said}") from error
                self.stderr.write(f"waiting for the database: {said}")
                time.sleep(1)
