"""The result of a change: changed objects, replaced machines, refusals. Compares the states of a simulation; no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import counted
from shared.api.resources import MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.applier.diff import FieldDiff, compare
from shared.kube import ApiError, Key, Object, deleting, dig, key_of, owned_by
from shared.kube.resources import owner_references

from ..addons.release_plan import ReleasePlan
from .change import is_cluster
from .progress import FAILED, Id, State, cluster_in, control_plane, referenced, topology_condition
from .snapshot import kind_of

Action = Literal["create", "update", "delete"]
MachineAction = Literal["replace", "create", "remove", "scale"]

_OWNED = "topology.cluster.x-k8s.io/owned"
"""The label of the objects that the topology controller writes."""
_NAME_LABELS = ("topology.cluster.x-k8s.io/deployment-name", "topology.cluster.x-k8s.io/pool-name")
_NO_CHANGE = ("metadata.ownerReferences", "metadata.annotations.machinedeployment.clusters.x-k8s.io/revision")
"""Fields that other controllers of core write."""
_KUBEADM = "KubeadmControlPlane"
_TEMPLATE_FIELDS = {
    "version": "version",
    "bootstrap": "bootstrap template",
    "infrastructureRef": "infrastructure template",
    "failureDomain": "failure domain",
}
"""The fields of a Machine template whose change replaces Machines; all others are changed in place (Cluster API book,
"Updating Machine Infrastructure and Bootstrap Templates")."""
_POOL_OBJECTS = {"bootstrap.configRef": "bootstrap configuration", "infrastructureRef": "infrastructure"}
"""The objects of a MachinePool, which keep their names when they change."""
_VERBS = {"replace": "replaced", "create": "created", "remove": "removed"}
_WEBHOOK = re.compile(r'admission webhook "([^"]{1,253})" denied the request')
_PATCH = re.compile(r'patch "([^"]{1,253})"')


@dataclass(frozen=True)
class ObjectChange:
    """One object that the topology controller changes.

    Attributes:
        action: The action of the controller.
        api_version: The version of the object.
        kind: The kind of the object.
        name: The name of the object. The name of a created object ends randomly.
        fields: The changed fields. For a created template, the fields that differ from the replaced template.
        replaces: The name of the replaced template.
        step: The number of the step, from 1 on, because an upgrade has several.
    """

    action: Action
    api_version: str
    kind: str
    name: str
    fields: tuple[FieldDiff, ...] = ()
    replaces: str = ""
    step: int = 1

    def dump(self) -> Object:
        """Returns the change as JSON."""
        return {
            "action": self.action,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            **({"replaces": self.replaces} if self.replaces else {}),
            "fields": [field.dump() for field in self.fields],
            "step": self.step,
        }


@dataclass(frozen=True)
class MachineChange:
    """A change of the machines of a control plane, a MachineDeployment or a MachinePool.

    Attributes:
        action: What happens.
        kind: The kind of their owner.
        name: The name of their owner.
        topology: The name of the owner in the topology; empty for the control plane.
        machines: The number of machines.
        reasons: The changed fields.
        remark: A limitation of this prediction.
        step: The number of the step, from 1 on.
    """

    action: MachineAction
    kind: str
    name: str
    topology: str
    machines: int
    reasons: tuple[str, ...] = ()
    remark: str = ""
    step: int = 1

    @property
    def summary(self) -> str:
        """The number of machines and what happens to them."""
        count = counted(self.machines, "machine")
        return f"scaled to {count}" if self.action == "scale" else f"{count} {_VERBS[self.action]}"

    def dump(self) -> Object:
        """Returns the change as JSON."""
        return {
            "action": self.action,
            "kind": self.kind,
            "name": self.name,
            "topologyName": self.topology,
            "machines": self.machines,
            "reasons": list(self.reasons),
            **({"remark": self.remark} if self.remark else {}),
            "step": self.step,
        }


@dataclass(frozen=True)
class Refusal:
    """Why a change fails. `by` is the webhook or the patch; empty if the message names none."""

    by: str
    message: str

    @classmethod
    def parse(cls, message: str) -> Refusal:
        """Finds the webhook or patch that refused the change in a message."""
        webhook, patch = _WEBHOOK.search(message), _PATCH.search(message)
        return cls(f"webhook {webhook[1]}" if webhook else f"patch {patch[1]}" if patch else "", message)

    def dump(self) -> Object:
        """Returns the refusal as JSON."""
        return {"by": self.by, "message": self.message}


@dataclass(frozen=True)
class TopologyPlan:
    """The preview of a change of one Cluster."""

    cluster: Key
    present_class: str
    wanted_class: str
    present_version: str
    wanted_version: str
    core: str
    common_notes: tuple[str, ...]
    """Limits of the preview, for all Clusters."""
    own_notes: tuple[str, ...]
    """Notes about this Cluster."""
    changes: tuple[ObjectChange, ...]
    machines: tuple[MachineChange, ...]
    pending: tuple[ObjectChange, ...]
    """Changes that core also makes without the planned change."""
    refusal: Refusal | None = None
    addons: ReleasePlan | None = None
    """The changes of the addons; None for a class without addons, and if they are not known."""

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes."""
        return self.common_notes + self.own_notes

    @property
    def is_blocked(self) -> bool:
        """Whether the change, or the sync of the addons after it, would fail."""
        return self.refusal is not None or (self.addons is not None and self.addons.is_blocked)

    @property
    def exit_code(self) -> int:
        """0 if nothing would change, 3 if something would, 4 if the change would fail."""
        addons = self.addons.exit_code if self.addons else 0
        return 4 if self.is_blocked else max(addons, 3 if self.changes or self.machines else 0)

    @property
    def replaced(self) -> int:
        """The number of machines that would be replaced."""
        return sum(change.machines for change in self.machines if change.action == "replace")

    @property
    def summary(self) -> str:
        """One line about machines and objects."""
        if self.refusal and not self.changes:
            return "refused, nothing would change"
        replaced = f"{counted(self.replaced, 'machine')} replaced" if self.replaced else "no machine is replaced"
        changed = counted(len(self.changes), "object") if self.changes else "no object"
        return f"{replaced}, {changed} changed" + ("; then it is refused" if self.refusal else "")

    @property
    def steps(self) -> int:
        """The number of steps."""
        return max([0, *(change.step for change in self.changes), *(change.step for change in self.machines)])

    def dump(self) -> Object:
        """Returns the plan as JSON."""
        return {
            "cluster": self.cluster.name,
            "namespace": self.cluster.namespace,
            "class": {"present": self.present_class, "wanted": self.wanted_class},
            "version": {"present": self.present_version, "wanted": self.wanted_version},
            "coreVersion": self.core,
            "notes": list(self.notes),
            "refused": self.refusal.dump() if self.refusal else None,
            "summary": {
                **{
                    action: sum(one.action == action for one in self.changes)
                    for action in ("create", "update", "delete")
                },
                "replacedMachines": self.replaced,
            },
            "machines": [change.dump() for change in self.machines],
            "changes": [change.dump() for change in self.changes],
            "pending": [change.dump() for change in self.pending],
            "addons": self.addons.dump() if self.addons else None,
        }


def refusal_of(error: ApiError | None, state: State, key: Key) -> Refusal | None:
    """Returns why the change of a Cluster fails: at the API server, or in the topology controller."""
    if error is not None:
        return Refusal.parse(error.detail)
    condition = topology_condition(cluster_in(state, key))
    if condition.get("status") == "False" and condition.get("reason") in FAILED:
        return Refusal.parse(str(condition.get("message") or condition["reason"]))
    return None


# -- objects -----------------------------------------------------------------------------------------------------


def object_changes(states: Sequence[State], key: Key) -> tuple[ObjectChange, ...]:
    """Returns the changes from the first to the last state, with the step in which each object first changed."""
    first, last = states[0], states[-1]
    found: list[ObjectChange] = []
    for step in range(1, len(states)):
        former = replaced_templates(first, states[step])
        for id_ in states[step]:
            if any(change.kind == id_[1] and change.name == id_[3] for change in found):
                continue
            change = _change(id_, first, states[step], last, key, former)
            if change is not None:
                found.append(replace(change, step=step))
    gone = {obj["metadata"]["uid"] for id_, obj in first.items() if id_ not in last or deleting(last[id_])}
    for obj in first.values():
        # A preview has no garbage collector, which deletes the objects of a MachinePool with it.
        uids = {obj["metadata"]["uid"], *(owner["uid"] for owner in owner_references(obj))}
        if _is_owned(obj, key) and not _is_template(obj) and uids & gone:
            found.append(ObjectChange("delete", obj["apiVersion"], obj["kind"], key_of(obj).name))
    return tuple(sorted(found, key=lambda one: (one.step, one.kind, one.name)))


def _change(id_: Id, first: State, now: State, last: State, key: Key, former: Mapping[Id, Id]) -> ObjectChange | None:
    obj = now[id_]
    if not _is_owned(obj, key) or id_ not in last or deleting(last[id_]):
        return None
    name, api_version = key_of(obj).name, obj["apiVersion"]
    if id_ not in first:
        origin = first.get(former.get(id_, id_))
        fields = tuple(field for field in _fields(origin, last[id_]) if field.path.startswith("spec")) if origin else ()
        return ObjectChange("create", api_version, obj["kind"], name, fields, key_of(origin).name if origin else "")
    if not _fields(first[id_], obj):
        return None
    return ObjectChange("update", api_version, obj["kind"], name, _fields(first[id_], last[id_]))


def _fields(old: Object, new: Object) -> tuple[FieldDiff, ...]:
    return tuple(field for field in compare(old, new) if not field.path.startswith(_NO_CHANGE))


def replaced_templates(before: State, after: State) -> dict[Id, Id]:
    """Returns the ids of templates by the ids of the templates that objects refer to instead of them."""
    found: dict[Id, Id] = {}
    for id_, obj in before.items():
        if id_ not in after:
            continue
        for old, new in zip(_references(obj), _references(after[id_]), strict=False):
            if old != new and old[:2] == new[:2]:
                found[new] = old
    return found


def _references(obj: Object) -> list[Id]:
    namespace = key_of(obj).namespace
    return [(*_kind(each), namespace, each["name"]) for each in _refs(obj.get("spec"))]


def _refs(value: object) -> Iterator[Mapping[str, Any]]:
    """Yields references by apiVersion, and references by apiGroup."""
    if isinstance(value, Mapping):
        if all(isinstance(value.get(name), str) for name in ("kind", "name")) and (
            "apiGroup" in value or "apiVersion" in value
        ):
            yield value
        for name in sorted(value):
            yield from _refs(value[name])
    elif isinstance(value, list):
        for below in value:
            yield from _refs(below)


def _kind(reference: Mapping[str, Any]) -> tuple[str, str]:
    return reference.get("apiGroup") or kind_of(reference)[0], reference["kind"]


def _is_owned(obj: Object, key: Key) -> bool:
    """Returns whether the object belongs to the topology of the Cluster; the Cluster itself is the user's."""
    labels = dig(obj, "metadata.labels", {})
    return (
        not is_cluster(obj)
        and key_of(obj).namespace == key.namespace
        and labels.get(CLUSTER_NAME_LABEL) == key.name
        and _is_topology(obj)
    )


def _is_topology(obj: Object) -> bool:
    """Returns whether the topology controller writes the object: MachineSets and Machines only inherit its label."""
    return _OWNED in dig(obj, "metadata.labels", {}) and not any(
        owner.get("kind") in ("MachineSet", "MachineDeployment", "Machine", _KUBEADM) and not _is_template(obj)
        for owner in dig(obj, "metadata.ownerReferences", [])
    )


def _is_template(obj: Object) -> bool:
    return str(obj["kind"]).endswith("Template")


# -- machines ----------------------------------------------------------------------------------------------------


def machine_changes(states: Sequence[State], key: Key) -> tuple[MachineChange, ...]:
    """Returns the changes of machines from the first to the last state, in the order of the steps."""
    found: dict[tuple[str, str, str], MachineChange] = {}
    for step in range(1, len(states)):
        for change in _machines(states[0], states[step], key):
            found.setdefault((change.action, change.kind, change.name), replace(change, step=step))
    return tuple(sorted(found.values(), key=lambda one: (one.step, one.kind != _KUBEADM, one.kind, one.name)))


def _machines(before: State, after: State, key: Key) -> Iterator[MachineChange]:
    yield from _control_plane(control_plane(before, key), control_plane(after, key))
    for resource in (MACHINE_DEPLOYMENT, MACHINE_POOL):
        kind = (resource.group, resource.kind)
        ids = {
            id_ for state in (before, after) for id_, obj in state.items() if id_[:2] == kind and _is_owned(obj, key)
        }
        for id_ in sorted(ids):
            yield from _workers(before, after, id_)


def _control_plane(old: Object | None, new: Object | None) -> Iterator[MachineChange]:
    if old is None or new is None:
        return
    spec, former = dig(new, "spec", {}), dig(old, "spec", {})
    infrastructure = "machineTemplate.spec.infrastructureRef"
    if dig(former, infrastructure) is None:
        infrastructure = "machineTemplate.infrastructureRef"
    reasons = [
        word
        for field, word in (("version", "version"), (infrastructure, "infrastructure template"))
        if dig(former, field) != dig(spec, field)
    ]
    remark = ""
    if kind_of(new)[1] != _KUBEADM:
        remark = "the provider of the control plane decides, which does not run in a preview"
    elif former.get("kubeadmConfigSpec") != spec.get("kubeadmConfigSpec"):
        reasons.append("kubeadmConfigSpec")
    counts = int(former.get("replicas") or 0), int(spec.get("replicas") or 0)
    name = key_of(new).name
    if reasons:
        yield MachineChange("replace", new["kind"], name, "", counts[0], tuple(reasons), remark)
    if counts[0] != counts[1]:
        yield MachineChange("scale", new["kind"], name, "", counts[1], (f"{counts[0]} -> {counts[1]} replicas",))


def _workers(before: State, after: State, id_: Id) -> Iterator[MachineChange]:
    old, new = before.get(id_), after.get(id_)
    obj = new or old or {}
    labels, name = dig(obj, "metadata.labels", {}), id_[3]
    topology = next((labels[label] for label in _NAME_LABELS if label in labels), "")
    counts = [int(dig(one, "spec.replicas") or 0) for one in (old, new)]
    if new is None or deleting(new):
        yield MachineChange("remove", id_[1], name, topology, counts[0])
        return
    if old is None:
        yield MachineChange("create", id_[1], name, topology, counts[1])
        return
    former, template = dig(old, "spec.template.spec", {}), dig(new, "spec.template.spec", {})
    reasons = tuple(word for field, word in _TEMPLATE_FIELDS.items() if former.get(field) != template.get(field))
    is_pool = id_[1] == MACHINE_POOL.kind
    if is_pool:
        reasons += tuple(
            word
            for field, word in _POOL_OBJECTS.items()
            if _referenced_spec(before, old, field) != _referenced_spec(after, new, field)
        )
    if reasons if is_pool else _new_machine_sets(before, after, new):
        remark = "the infrastructure provider decides, which does not run in a preview" if is_pool else ""
        strategy = dig(new, "spec.rollout.strategy.type") or dig(new, "spec.strategy.type")
        if strategy == "OnDelete":
            remark = "strategy OnDelete: each is replaced once somebody deletes it"
        yield MachineChange("replace", id_[1], name, topology, counts[0], reasons, remark)
    if counts[0] != counts[1]:
        yield MachineChange("scale", id_[1], name, topology, counts[1], (f"{counts[0]} -> {counts[1]} replicas",))


def _referenced_spec(state: State, pool: Object, field: str) -> object:
    reference = dig(pool, f"spec.template.spec.{field}", {})
    return dig(referenced(state, pool, reference) or {}, "spec")


def _new_machine_sets(before: State, after: State, deployment: Object) -> bool:
    """Returns whether the MachineDeployment has a new MachineSet, which shows its controller's decision to replace."""
    kind = (MACHINE_SET.group, MACHINE_SET.kind)
    return any(id_[:2] == kind and id_ not in before and owned_by(obj, deployment) for id_, obj in after.items())
