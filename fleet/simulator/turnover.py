"""Gangs come and go: the longest-running one finishes now and then, and a new one is submitted.

It decides when and how large. It refuses to end a gang that is not running whole: that one has other troubles.
"""

from random import Random

from fleet.simulator.kubelets import Kubelets
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline
from fleet.simulator.workloads import GANG_SIZES, Set, Workloads

CLEAN_UP_SECONDS = 5.0


class Turnover:
    def __init__(self, store: Store, timeline: Timeline, kubelets: Kubelets, workloads: Workloads, rng: Random) -> None:
        self.pods = store["pods"]
        self.timeline = timeline
        self.kubelets = kubelets
        self.workloads = workloads
        self.rng = rng

    def begin(self, every: float) -> None:
        if every > 0:
            self.timeline.after(every, lambda: self._turn(every))

    def _turn(self, every: float) -> None:
        self.begin(every)
        gang = next((s for s in self.workloads.sets.values() if s.kind == "Gang" and self._whole(s)), None)
        if gang is not None:
            self._finish(gang)
        self.workloads.submit(self.workloads.gangs, self.rng.choice(GANG_SIZES))
        self.workloads.gangs += 1

    def _whole(self, gang: Set) -> bool:
        members = [self.pods.get(key) for key in gang.active]
        return len(members) == gang.replicas and all(pod is not None and pod.phase == "Running" for pod in members)

    def _finish(self, gang: Set) -> None:
        members = [pod for key in sorted(gang.active) if (pod := self.pods.get(key)) is not None]
        self.workloads.retire(gang)
        for pod in members:
            self.kubelets.finish(pod.key, pod.uid, 0, "training is complete")

        def clean_up() -> None:
            for pod in members:
                current = self.pods.get(pod.key)
                if current is not None and current.uid == pod.uid:
                    self.pods.remove(pod.key)

        self.timeline.after(CLEAN_UP_SECONDS, clean_up)
