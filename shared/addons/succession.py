"""Keeps the record of a ClusterAddon that is deleted while its Cluster stays, for the next ClusterAddon.

The record has the inventory, the history, the applied release and the annotations of this project. It is in a Secret
that the Cluster owns until the new ClusterAddon takes it over, as are the stored manifests and the stored values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.api.names import SUCCESSOR_ANNOTATION
from shared.api.resources import SECRET
from shared.applier import inventory
from shared.applier.policy import PREFIX
from shared.clients import Clients
from shared.kube import MANAGER, Conflict, Object, dig, owned_by, owner_reference
from shared.kube.resources import owner_references

from .secret_record import Purpose, pack, secret_key, unpack

_SECRETS: tuple[Purpose, ...] = ("manifests", "generated", "record")
_DATA = "record"
_MAX_BYTES = 1_000_000


def is_recorded(addon: Object) -> bool:
    """Returns whether the ClusterAddon records anything that would be lost with it."""
    return bool(dig(addon, "status.resources") or dig(addon, "status.history"))


def is_successor(addon: Object) -> bool:
    """Returns whether the ClusterAddon may succeed a deleted one whose record it has not taken over."""
    return bool(dig(addon, ("metadata", "annotations", SUCCESSOR_ANNOTATION))) and not is_recorded(addon)


def read_record(clients: Clients, addon: Object, cluster: Object) -> Object | None:
    """Returns the patch of metadata, spec and status in a record; None without a complete record.

    Raises `ApiError` if the Secret could not be read.
    """
    secret = clients.management.find(SECRET, secret_key(addon, "record"))
    if secret is None or not (owned_by(secret, cluster) or owned_by(secret, addon)):
        return None
    try:
        record = unpack(dig(secret, ("data", _DATA)) or "")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


@dataclass(frozen=True)
class KeepRecord:
    """The effect that writes the record of a ClusterAddon, and gives its Secrets to the Cluster."""

    addon: Object
    cluster: Object

    def execute(self, clients: Clients) -> None:
        """Writes the Secret, unless it belongs to others or the record is too large for one."""
        annotations = dig(self.addon, "metadata.annotations", {})
        record = {
            "metadata": {"annotations": {name: text for name, text in annotations.items() if name.startswith(PREFIX)}},
            "spec": {name: dig(self.addon, f"spec.{name}", "") for name in ("clusterStack", "version")},
            "status": {
                "resources": inventory.dump(inventory.load(dig(self.addon, "status.resources"))),
                "history": dig(self.addon, "status.history", []),
            },
        }
        if packed := pack(record, _MAX_BYTES):
            self._write(clients, {_DATA: packed})
        _hand_over(clients, self.addon, self.addon, self.cluster)

    def _write(self, clients: Clients, data: Mapping[str, Any]) -> None:
        key = secret_key(self.addon, "record")
        metadata = {**key._asdict(), "ownerReferences": [owner_reference(self.cluster)]}
        try:
            clients.management.create(
                SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict(data)}
            )
        except Conflict as error:
            if not error.already_exists:
                raise
            found = clients.management.find(SECRET, key)
            if found and (owned_by(found, self.addon) or owned_by(found, self.cluster)):
                patch = {"metadata": {"uid": found["metadata"]["uid"]}, "data": dict(data)}
                clients.management.patch(SECRET, key, patch, manager=MANAGER)


@dataclass(frozen=True)
class TakeSecrets:
    """The effect that gives a new ClusterAddon the Secrets that the Cluster kept for it."""

    addon: Object
    cluster: Object

    def execute(self, clients: Clients) -> None:
        """Changes the owner of the Secrets that the Cluster owns."""
        _hand_over(clients, self.addon, self.cluster, self.addon)


def _hand_over(clients: Clients, addon: Object, giver: Object, taker: Object) -> None:
    """Replaces `giver` by `taker` among the owners of the addon's Secrets that `giver` owns."""
    for purpose in _SECRETS:
        key = secret_key(addon, purpose)
        secret = clients.management.find(SECRET, key)
        if secret is None or not owned_by(secret, giver):
            continue
        others = [each for each in owner_references(secret) if each.get("uid") != dig(giver, "metadata.uid")]
        decided_on = {name: secret["metadata"][name] for name in ("uid", "resourceVersion")}
        metadata = {**decided_on, "ownerReferences": [*others, owner_reference(taker)]}
        clients.management.patch(SECRET, key, {"metadata": metadata}, manager=MANAGER)
