"""PowerPort over Redfish.

Decides the order of a call: reach, find the system, match the pins, and only then send, once. Refuses to reset what is
not pinned, what answers with another identity, and what the BMC does not offer; never retries and proves nothing.
"""

from __future__ import annotations

from typing import Any

import sushy

from fleet.adapters.redfish import identity
from fleet.adapters.redfish.errors import translate
from fleet.adapters.redfish.session import Conversation
from fleet.adapters.redfish.system import can_reset, choose_system, identity_of, open_service, reading
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import PermanentError
from fleet.ports.power import BmcTarget, PowerSeen, PowerVerb


class RedfishPower:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def observe(self, target: BmcTarget, deadline_seconds: float) -> PowerSeen:
        def work(conversation: Conversation) -> PowerSeen:
            return self._matched(target, conversation)[1]

        return self._converse(target, deadline_seconds, work)

    def reset(self, target: BmcTarget, verb: PowerVerb, deadline_seconds: float) -> PowerSeen:
        pins = identity.pins_of(target)
        if not (pins.uuid or pins.serial):
            raise PermanentError(
                f"No UUID or serial that tells machines apart is pinned for the BMC of {target.node}, so it may not "
                "be reset.",
                code="not_pinned",
            )

        def work(conversation: Conversation) -> PowerSeen:
            system, before = self._matched(target, conversation)
            if not can_reset(system) or (before.resets and verb.value not in before.resets):
                offers = ", ".join(before.resets) or "none"
                raise PermanentError(
                    f"The BMC of {target.node} does not offer {verb.value}; it offers {offers}.",
                    code="reset_unsupported",
                )
            system.reset_system(sushy.ResetType(verb.value))
            return before

        return self._converse(target, deadline_seconds, work)

    def _matched(self, target: BmcTarget, conversation: Conversation) -> tuple[Any, PowerSeen]:
        system = choose_system(open_service(target, conversation), target)
        identity.demand(target, identity_of(system))
        return system, reading(system, self._clock.now())

    def _converse(self, target: BmcTarget, seconds: float, work: Any) -> PowerSeen:
        conversation = Conversation(seconds)
        try:
            seen: PowerSeen = conversation.run(lambda: work(conversation))
        except Exception as error:
            raise translate(target, error, conversation.post_sent) from None
        return seen
