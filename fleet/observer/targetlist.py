"""A cluster's list of targets as the observer uses it: exporters to scrape and fabric managers to ask.

Decides, every two seconds, whether the file changed, and which of its nodes are this cluster's. Refuses to act on a
file with mistakes: the list before stays, and the cluster's page says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fleet.inventory.targets import NOTHING, BadTargets, Targets
from fleet.inventory.targetsfile import TargetsFile
from fleet.observer.conditions import Conditions
from fleet.observer.session import Session
from fleet.observer.world import Exporter
from fleet.telemetry.series import Ambiguous

LOOK_EVERY = 2.0
SHOWN = 3


@dataclass(slots=True)
class TargetList:
    """`version` grows with every change, of the file or of the names that nodes are known by."""

    session: Session
    conditions: Conditions
    resolve: Callable[[str], str | Ambiguous | None]
    targets: Targets = NOTHING
    version: int = 0
    _file: TargetsFile | None = field(default=None)

    def look(self) -> None:
        """Read the file again if it changed."""
        path = self.session.cluster.targets_file
        if not path:
            return
        self._file = self._file or TargetsFile(path)
        try:
            found = self._file.changed()
        except BadTargets as error:
            self.conditions.state("targets", f"The list of targets cannot be used; the one before stays. {error}"[:400],
                                  self.session.clock.now())  # fmt: skip
            return
        self.conditions.mend("targets")
        if found is not None:
            self.targets = found
            self.version += 1
        self._tell_unknown()

    def names_changed(self) -> None:
        self.version += 1

    def _tell_unknown(self) -> None:
        """Once nodes are known: a listed name that means none of them is scraped for nobody."""
        unknown = sorted(name for name in self.targets.nodes if not isinstance(self.resolve(name), str))
        if unknown and self.session.node_ids:
            few = ", ".join(unknown[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
            text = f"{len(unknown)} nodes of the list of targets are not in the cluster: {few}"
            self.conditions.state("targets_unknown", text, self.session.clock.now())
        else:
            self.conditions.mend("targets_unknown")

    def any_exporters(self) -> bool:
        return any(listed.exporters for listed in self.targets.nodes.values())

    def exporters(self) -> dict[tuple[str, str], Exporter]:
        """(node, job) -> where to scrape it."""
        found: dict[tuple[str, str], Exporter] = {}
        for listed in self.targets.nodes.values():
            node = self.resolve(listed.name)
            if isinstance(node, str):
                found |= {(node, job): Exporter(node, job, url) for job, url in listed.exporters.items()}
        return found
