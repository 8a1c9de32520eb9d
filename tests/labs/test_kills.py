"""A short campaign of `kill -9`; `make soak` runs the long one."""

from __future__ import annotations

import random

from tests.labs.kills import Campaign
from tests.labs.live import PROCESSES, Live


def test_every_process_is_killed_twice_while_nodes_heal_and_nothing_is_lost_or_done_twice() -> None:
    with Live(nodes=128, speed=2.0) as live:
        campaign = Campaign(live, 2 * len(PROCESSES), random.Random(7), fault_every=5.0)
        campaign.run()
        print(campaign.summary())
        assert {what: found for what, found in campaign.findings().items() if found} == {}
