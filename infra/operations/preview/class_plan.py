"""The preview of a change for all Clusters of a ClusterClass: groups of Clusters for which it does the same; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.api.conditions import counted
from shared.kube import Key, Object

from .result import MachineChange, TopologyPlan


@dataclass(frozen=True)
class Group:
    """Plans that replace the same machines for the same reasons, or that the same webhook or patch refuses."""

    plans: tuple[TopologyPlan, ...]

    @property
    def example(self) -> TopologyPlan:
        """The first plan, whose machines, objects and refusal stand for all."""
        return self.plans[0]

    @property
    def clusters(self) -> tuple[Key, ...]:
        """The Clusters."""
        return tuple(plan.cluster for plan in self.plans)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that not every Cluster has, with the name of the Cluster."""
        return tuple(f"{plan.cluster}: {note}" for plan in self.plans for note in plan.own_notes)

    def dump(self) -> Object:
        """Returns the group as JSON."""
        refusal = self.example.refusal
        return {
            "clusters": [{"namespace": key.namespace, "name": key.name} for key in self.clusters],
            "refused": refusal.dump() if refusal else None,
            "summary": self.example.summary,
            "replacedMachines": self.example.replaced,
            "machines": [_dump(change) for change in self.example.machines],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class ClassPlan:
    """The preview of a change for the Clusters of one ClusterClass; the largest group is the first."""

    cluster_class: Key
    core: str
    notes: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def plans(self) -> list[TopologyPlan]:
        """The plans of all Clusters."""
        return [plan for group in self.groups for plan in group.plans]

    @property
    def is_blocked(self) -> bool:
        """Whether the change of any Cluster would fail."""
        return any(plan.is_blocked for plan in self.plans)

    @property
    def exit_code(self) -> int:
        """0 if nothing would change, 3 if something would, 4 if the change of any Cluster would fail."""
        return max((plan.exit_code for plan in self.plans), default=0)

    @property
    def summary(self) -> str:
        """One line about all machines."""
        replaced = sum(plan.replaced for plan in self.plans)
        concerned = sum(plan.replaced > 0 for plan in self.plans)
        if not replaced:
            return f"no machine is replaced in {counted(len(self.plans), 'Cluster')}"
        return f"{counted(replaced, 'machine')} replaced in {concerned} of {counted(len(self.plans), 'Cluster')}"

    def dump(self) -> Object:
        """Returns the plan as JSON."""
        return {
            "class": self.cluster_class.name,
            "namespace": self.cluster_class.namespace,
            "coreVersion": self.core,
            "notes": list(self.notes),
            "summary": {
                "clusters": len(self.plans),
                "refusedClusters": sum(plan.refusal is not None for plan in self.plans),
                "replacedMachines": sum(plan.replaced for plan in self.plans),
            },
            "groups": [group.dump() for group in self.groups],
        }


def grouped(plans: Iterable[TopologyPlan]) -> tuple[Group, ...]:
    """Returns the plans in groups, the largest first."""
    found: dict[object, list[TopologyPlan]] = {}
    for plan in plans:
        refused = plan.refusal and (plan.refusal.by or plan.refusal.message)
        machines = tuple(sorted(str(_dump(change)) for change in plan.machines))
        found.setdefault((refused, plan.summary, machines), []).append(plan)
    return tuple(Group(tuple(group)) for group in sorted(found.values(), key=len, reverse=True))


def _dump(change: MachineChange) -> Object:
    """Returns the change without the name, because each Cluster has another name."""
    return {name: value for name, value in change.dump().items() if name != "name"}
