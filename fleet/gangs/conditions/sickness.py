"""Members that say they are ready on a node or with a device that is not well.

Decides by the node's open fault (an Xid, an NVLink or InfiniBand fault, a hung mount: none of them makes a pod unready)
and by what the kubelet says of a device that it gave to the pod. Refuses members that are not ready: those show it
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.form import Gang


def sickness(gang: Gang, sick: Mapping[str, str]) -> Iterator[Condition]:
    """`sick`: nodes in an open fault -> what it is."""
    ready = [member for member in gang.members if member.state == "ready"]
    for node, count in sorted(Counter(member.node for member in ready if member.node in sick).items()):
        yield found("sick_node", gang.key, "critical", node, reason=sick[node], ready=count)
    for member in ready:
        if member.sick_device:
            yield found("sick_device", gang.key, "critical", member.key, said=member.sick_device, node=member.node)
