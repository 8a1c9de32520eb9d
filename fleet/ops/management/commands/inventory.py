"""`manage.py inventory import FILE`: BMC addresses, serials and places from CSV or YAML.

Decides which cluster is meant (the only one, where there is one). Refuses to end with success while lines were bad; the
good ones are imported all the same.
"""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.inventory import files, importer, selectors
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK

SHOWN = 200


class Command(BaseCommand):
    help = "Imports BMC addresses, serials, racks, leaves, rails, NVLink domains and credential references."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verb = verbs.add_parser("import", help="read a CSV or YAML file")
        verb.add_argument("file", type=Path, help=f"columns or keys: {', '.join(files.COLUMNS)}")
        verb.add_argument("--cluster", default="", help="whose nodes; may be left out where there is only one cluster")
        verb.add_argument("--expect", action="store_true", help="take nodes that were not seen yet, too")
        verb.add_argument("--dry-run", action="store_true", help="only show what would change")
        verb.add_argument("--repin", action="store_true", help="let pinned serials and UUIDs change")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = self._cluster(options["cluster"])
        try:
            lines, unread = files.read_file(options["file"])
        except files.UnreadableFile as error:
            raise CommandError(str(error)) from error
        report = importer.import_lines(
            cluster,
            lines,
            by=f"{getpass.getuser()} (command line)",
            now=SYSTEM_CLOCK.now(),
            repin=options["repin"],
            expect=options["expect"],
            dry_run=options["dry_run"],
        )
        errors = [*unread.errors, *report.errors]
        for text in report.changes[:SHOWN] if options["dry_run"] else ():
            self.stdout.write(text)
        if options["dry_run"] and len(report.changes) > SHOWN:
            self.stdout.write(f"... and {len(report.changes) - SHOWN} more changes")
        for text in errors[:SHOWN]:
            self.stderr.write(text)
        counts = unread.counts + report.counts
        told = ", ".join(f"{code} {n}" for code, n in sorted(counts.items()))
        verb = "would change" if options["dry_run"] else "changed"
        self.stdout.write(
            f"{report.lines} lines read, {verb} {len(report.nodes)} nodes ({len(report.changes)} values), "
            f"{len(errors)} lines refused{f' ({told})' if told else ''}."
        )
        if errors:
            raise CommandError(f"{len(errors)} lines were refused.", returncode=2)

    def _cluster(self, name: str) -> Cluster:
        try:
            if name:
                return selectors.cluster_named(name)
        except selectors.UnknownCluster as error:
            raise CommandError(str(error)) from error
        clusters = list(selectors.active_clusters()[:2])
        if len(clusters) != 1:
            raise CommandError(
                "Say --cluster NAME." if clusters else "No cluster is registered; use `cluster add` first."
            )
        return clusters[0]
