"""HyperNode of Volcano (`topology.volcano.sh/v1alpha1`): the tree of a network, of which nodes are the leaves.

Decides how a member is found: by its exact name, by a pattern, by labels. Refuses to look whether such members are
there (`fleet.gangs.diagnosis.tiers` does), and the counts and conditions of its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.adapters.kubernetes.schedulers.objects import Raw, Reader, number, ref_of, spoken_key
from fleet.ports.gangs import Domain, Inside, Match, Spoken
from fleet.ports.shapes import items, mapping, strings, text, texts


def hyper_node(raw: Raw) -> Spoken:
    ref, spec = ref_of("volcano", "HyperNode", raw), mapping(raw.get("spec"))
    tier = number(spec.get("tier"))
    if tier is None:
        return Spoken(spoken_key(ref))  # without a tier it has no place in the tree
    members = tuple(_inside(one) for one in items(spec.get("members")))
    return Spoken(spoken_key(ref), domains=(Domain(ref.name, tier, text(spec.get("tierName")), members),))


def _inside(raw: Mapping[str, Any]) -> Inside:
    selector = mapping(raw.get("selector"))
    labels = mapping(selector.get("labelMatch"))
    return Inside(
        domains=text(raw.get("type")) == "HyperNode",
        name=text(mapping(selector.get("exactMatch")).get("name")),
        pattern=text(mapping(selector.get("regexMatch")).get("pattern")),
        labels=(
            *(Match(key, "In", (value,)) for key, value in sorted(texts(labels.get("matchLabels")).items())),
            *(
                Match(text(one.get("key")), text(one.get("operator")), strings(one.get("values")))
                for one in items(labels.get("matchExpressions"))
            ),
        ),
    )


READERS = (Reader("volcano", "HyperNode", "topology.volcano.sh", "hypernodes", ("v1alpha1",), hyper_node),)
