"""`manage.py holds list|release`: every hold of ours in every cluster, as the clusters themselves tell it; and what of
ours stands on jobs, which ends by itself while the cluster is acted in.

Decides that a release by hand starts the jobs again that were suspended for the node (`--all`: all of them), also in
mode observe and in a cluster that was removed, where the credential still is. Refuses a release without a reason.
"""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet import wiring, wiring_gangs
from fleet.inventory.models import Cluster
from fleet.lifecycle import holds, on_jobs
from fleet.lifecycle.services import Refused
from fleet.lifecycle.suspending import resuming
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError


class Command(BaseCommand):
    help = "List our holds in every cluster, or release one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["list", "release"])
        parser.add_argument("node", nargs="?", default="", help="for release: the node, or --all")
        parser.add_argument("--cluster", default="")
        parser.add_argument("--all", action="store_true")
        parser.add_argument("--reason", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        clusters = Cluster.objects.filter(**({"name": options["cluster"]} if options["cluster"] else {}))
        if options["action"] == "release" and not (options["node"] or options["all"]):
            raise CommandError("Say which NODE to release, or --all.")
        if options["action"] == "release" and not options["reason"]:
            raise CommandError("Releasing takes a --reason.")
        failed = 0
        for cluster in clusters:
            try:
                failed += self._one(cluster, options)
            except PortError as error:
                failed += 1
                self.stderr.write(f"{cluster.name}: {error}")
        if failed:
            raise CommandError(f"{failed} hold(s) or cluster(s) could not be handled.")

    def _one(self, cluster: Cluster, options: dict[str, Any]) -> int:
        failed = self._jobs(cluster, options) if options["action"] == "release" else 0
        for job in on_jobs.found(cluster) if options["action"] == "list" else ():
            self.stdout.write(f"{cluster.name} {job.job} {job.value} {job.text}")
        for hold in holds.found(cluster, wiring.reader(cluster)):
            if options["action"] == "list":
                self.stdout.write(f"{cluster.name} {hold.node} {hold.value} {hold.text}")
                continue
            if options["node"] not in ("", hold.node):
                continue
            try:
                done = holds.release(
                    cluster,
                    hold,
                    lambda: wiring.actor(cluster),
                    getpass.getuser(),
                    options["reason"],
                    SYSTEM_CLOCK.now(),
                )
                self.stdout.write(f"{cluster.name} {hold.node}: {done}")
            except (Refused, PortError) as error:
                failed += 1
                self.stderr.write(f"{cluster.name} {hold.node}: {error}")
        return failed

    def _jobs(self, cluster: Cluster, options: dict[str, Any]) -> int:
        """Start again what we suspended there; how many could not be."""
        nodes = [options["node"]] if options["node"] else []
        namespaces = resuming.namespaces(cluster)
        port = wiring_gangs.suspends(cluster, namespaces) if namespaces else None
        if port is None:
            return 0
        came = resuming.by_hand(cluster, port, SYSTEM_CLOCK.now(), nodes)
        for row in came:
            said = row.text or row.state if row.ended_at else f"still suspended: {row.text or 'no clear answer yet.'}"
            (self.stdout if row.ended_at else self.stderr).write(f"{cluster.name} {row.title}: {said}")
        return sum(row.ended_at is None for row in came)
