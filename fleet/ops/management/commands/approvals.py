"""`manage.py approvals list|approve|reject`: the inbox, from a shell.

Decides nothing: votes go the way of the page's. Refuses a vote of nobody in particular: it takes an account that may
approve there (`--as`).
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.lifecycle import ballots
from fleet.ops.people import acting
from fleet.policy import asking
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import approvals_page


class Command(BaseCommand):
    help = "Lists what waits for approval, approves or rejects it."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="what waits for approval")
        for verb in ("approve", "reject"):
            one = verbs.add_parser(verb, help=f"{verb} one request")
            one.add_argument("id", type=int)
            one.add_argument("--as", dest="person", required=True, help="the account that votes; it must be allowed to")
            one.add_argument("--reason", default="", help="kept in the audit log; a no takes one")

    def handle(self, *args: Any, **options: Any) -> None:
        now = SYSTEM_CLOCK.now()
        waiting = approvals_page.pending(None, options.get("person", ""), lambda right, cluster: True, now)
        if options["verb"] == "list":
            for one in waiting:
                row, votes = one.row, f"{one.agreed} of {one.row.needed}"
                until = f"{row.expires_at:%Y-%m-%d %H:%M} UTC"
                asked = f"{row.pk}  {one.title}  {one.cluster or 'site'}  by {row.requested_by}: {row.reason}"
                self.stdout.write(f"{asked}  ({votes}, expires {until})")
            return
        found = next((one for one in waiting if one.row.pk == options["id"]), None)
        if found is None:
            raise CommandError(f"No request {options['id']} waits for approval.")
        by = acting(options["person"], approvals_page.right_for(found.row), found.cluster)
        try:
            decision = ballots.vote(found.row.pk, by, options["verb"] == "approve", options["reason"], now)
        except asking.VoteRefused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(decision.text or "Approved.")
