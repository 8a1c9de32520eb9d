"""The doors of health events: CloudEvents, gpud's states and Alertmanager's webhook.

Decides whose an event is, by the same table as samples and lines; all names in it must mean one node, and a token of
one node speaks for that node alone. 2xx means committed. Refuses bodies of which nothing could be read; what could not
be read of others is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fleet.access.models import Token
from fleet.inventory.aliases import sentence
from fleet.observer.answers import Answer, Answered, Headers
from fleet.observer.push import Push, aside, demand_json
from fleet.telemetry.healthevents import EventBatch, HealthEvent, read_alerts, read_events
from fleet.telemetry.services import Refusal

_CLOUD = b"ce-"


@dataclass(slots=True)
class EventDoor:
    push: Push

    async def take(self, token: Token, headers: Headers, body: bytes) -> Answer:
        demand_json(headers)
        said = {
            name.removeprefix(_CLOUD).decode("latin-1"): value.decode("utf-8", "replace")
            for name, value in headers.items()
            if name.startswith(_CLOUD)
        }
        return await self._hear(token, await aside(read_events, body, said))

    async def take_alerts(self, token: Token, headers: Headers, body: bytes) -> Answer:
        demand_json(headers)
        return await self._hear(token, await aside(read_alerts, body))

    async def _hear(self, token: Token, batch: EventBatch) -> Answer:
        for reason, count in batch.rejected.items():
            text = f"Health events pushed by {token.name}: {reason}."
            self.push.refusals.add(Refusal("push", reason, token.name), text, count)
        if not batch.events and set(batch.rejected) - {"no_verdict"}:
            raise Answered(400, f"No health event could be read: {', '.join(sorted(batch.rejected))}.")
        refused: Counter[str] = Counter()
        known: list[tuple[str, HealthEvent]] = []
        for event in batch.events:
            node = self._node(token, event, refused)
            if node:
                known.append((node, event))
        if refused["wrong_node"] and not known:
            raise Answered(403, f"This token may speak only for {token.node or 'events whose names agree'}.")
        if known:
            await self.push.store(token, known)
        self.push.counts["events"] += len(known)
        return Answer(200, {"accepted": len(known), "rejected": dict(batch.rejected + refused)})

    def _node(self, token: Token, event: HealthEvent, refused: Counter[str]) -> str:
        session, found, reason, text = self.push.session, set[str](), "", ""
        for name in event.node_claims:
            match = session.aliases.resolve(name)
            node = session.names.get(match.node_id) if match.node_id is not None else None
            if node is None:
                miss = match.miss or "unknown_node"
                reason, text = str(miss), sentence(miss, name)
            else:
                found.add(node)
        if not reason and (len(found) != 1 or (token.node and token.node not in found)):
            reason, text = "wrong_node", f"{token.name} sent an event of {' and '.join(sorted(found))}."
        if reason:
            refused[reason] += 1
            self.push.refusals.add(Refusal("push", reason, event.node_claims[0]), text)
            return ""
        return found.pop()
