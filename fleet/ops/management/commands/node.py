"""`manage.py node hold|release|drain|... NODE --reason R`: what a person asks of one node, from a shell.

Decides who is written down: the account that `--as` names, with the rights that it has. Without it, whoever runs the
command on this host. Refuses an action without a reason, and a name that two clusters have.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.access.rights import OPERATE
from fleet.inventory.models import Node
from fleet.lifecycle import manual
from fleet.lifecycle.asked import ACTIONS
from fleet.lifecycle.playbooks import RELEASE
from fleet.ops.people import acting
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Asks for an action on one node: hold, release, drain, validate, reboot, ..."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, RELEASE])
        parser.add_argument("node")
        parser.add_argument("--cluster", default="", help="needed where two clusters have a node of that name")
        parser.add_argument("--reason", required=True, help="kept in the audit log")
        parser.add_argument("--as", dest="person", default="", help="the account that asks; its rights apply")

    def handle(self, *args: Any, **options: Any) -> None:
        found = Node.objects.select_related("cluster").filter(name=options["node"], gone_at=None)
        if options["cluster"]:
            found = found.filter(cluster__name=options["cluster"])
        nodes = list(found.filter(cluster__removed_at=None))
        if len(nodes) != 1:
            many = ", ".join(sorted(node.cluster.name for node in nodes))
            raise CommandError(f"Add --cluster: {many}." if nodes else f"There is no node {options['node']}.")
        by = acting(options["person"], OPERATE, nodes[0].cluster.name)
        try:
            made, refused = manual.request(
                [nodes[0].pk], options["action"], by, options["reason"], SYSTEM_CLOCK.now(), SYSTEM_CLOCK
            )
        except manual.ManualRefused as error:
            raise CommandError(str(error)) from error
        if not made:
            raise CommandError(" ".join(refused.values()))
        waits = " It waits for another person's approval." if made[0].state == "waiting" else ""
        self.stdout.write(f"{made[0].label}: {options['action']} {options['node']}.{waits}")
