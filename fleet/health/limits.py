"""The site's numbers for shared incidents.

Decides that each may be set in the environment. Refuses, by the typed readers, a value that makes no sense.
"""

from __future__ import annotations

from fleet import settings_env as env
from fleet.health.correlation_shared import Limits

_D = Limits()

LIMITS = Limits(
    window=env.number("MUSTER_SHARED_WINDOW_SECONDS", _D.window, 1),
    settle=env.number("MUSTER_SETTLE_SECONDS", _D.settle, 0),
    linger=env.number("MUSTER_SHARED_LINGER_SECONDS", _D.linger, 0),
    nodes=env.whole("MUSTER_SHARED_NODES", _D.nodes, 2),
    share=env.number("MUSTER_SHARED_PERCENT", 100 * _D.share, 0) / 100,
    least=env.whole("MUSTER_SHARED_LEAST", _D.least, 2),
    leaf_nodes=env.whole("MUSTER_SHARED_LEAF_NODES", _D.leaf_nodes, 2),
    mount_share=env.number("MUSTER_SHARED_MOUNT_PERCENT", 100 * _D.mount_share, 1) / 100,
    power_nodes=env.whole("MUSTER_SHARED_POWER_NODES", _D.power_nodes, 2),
    changed_nodes=env.whole("MUSTER_SHARED_CHANGED_NODES", _D.changed_nodes, 2),
    changed_window=env.number("MUSTER_SHARED_CHANGED_SECONDS", _D.changed_window, 0),
)
