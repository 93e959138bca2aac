"""Stores the last completely applied manifests, so that a rollback does not need the release.

Manifests may contain Secrets, so they are stored (compressed) in a Secret beside the ClusterAddon, as Helm does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from shared.api.conditions import rfc3339
from shared.api.names import ROLLBACK_ANNOTATION
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import MANAGER, ApiError, Conflict, Object, dig, key_of, owned_by, owner_reference

from .secret_record import pack, secret_key, unpack
from .target import SyncTarget

_key = partial(secret_key, purpose="manifests")

_LENGTH = 2
_MAX_BYTES = 1_000_000
"""The limit of one manifest, compressed; a Secret has at most one MiB."""


@dataclass(frozen=True)
class StoredManifest:
    """A completely applied manifest; `problem` says why there is none to roll back to."""

    class_name: str = ""
    version: str = ""
    objects: tuple[Object, ...] = ()
    problem: str = ""


def read_previous(clients: Clients, addon: Object) -> StoredManifest:
    """Reads the newest manifest of another class than the one to roll back from.

    Raises:
        ApiError: The Secret could not be read.
    """
    rollback_from = dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION))
    entries = [entry for entry in dig(addon, "status.history", []) if entry.get("clusterStack") != rollback_from]
    if not entries:
        return StoredManifest(
            problem=f"no manifest of a class other than {rollback_from} is stored, so a rollback is not possible"
        )
    return _read(clients, addon, entries[0]["clusterStack"], entries[0].get("version", ""))


def read_applied(clients: Clients, addon: Object) -> StoredManifest:
    """Reads the last applied manifest of the class, even if the status lacks it. Raises `ApiError`."""
    return _read(clients, addon, dig(addon, "spec.clusterStack", ""), dig(addon, "spec.version", ""))


def _read(clients: Clients, addon: Object, class_name: str, version: str) -> StoredManifest:
    secret = clients.management.find(SECRET, _key(addon)) or {}
    if secret and not owned_by(secret, addon):
        return StoredManifest(problem=_foreign_secret_message(addon))
    data = dig(secret, ("data", class_name))
    if not data:
        return StoredManifest(problem=f"Secret {secret_key(addon, 'manifests')} has no manifest of {class_name}")
    try:
        objects = unpack(data)
    except ValueError as error:
        return StoredManifest(
            problem=f"Secret {secret_key(addon, 'manifests')}: the manifest of {class_name} is damaged: {error}"
        )
    return StoredManifest(class_name, version, tuple(objects))


def updated_history(
    addon: Object, target: SyncTarget, now: datetime, *, stored: Collection[str], stages: Collection[str] = ()
) -> list[Object]:
    """Returns `status.history` with `target` first, each class once, limited to classes whose manifests are stored.

    `stages` are the stages whose charts are installed.
    """
    newest = history_entry(target.class_name, target.version, target.digest, now)
    if named := sorted(filter(None, stages)):
        newest["stages"] = named
    entries = [newest, *_other_entries(addon, target.class_name)]
    return [entry for entry in entries if entry["clusterStack"] in stored]


def history_entry(class_name: str, version: str, digest: str, now: datetime) -> Object:
    """Returns the entry of `status.history` for a release that is applied."""
    return {"clusterStack": class_name, "version": version, "digest": digest, "at": rfc3339(now)}


def _other_entries(addon: Mapping[str, Any], class_name: str) -> list[Object]:
    """Returns the latest entries of other classes that the history can hold beside one entry of this class."""
    entries = [entry for entry in dig(addon, "status.history", []) if entry.get("clusterStack") != class_name]
    return entries[: _LENGTH - 1]


@dataclass(frozen=True)
class SavedManifests:
    """The classes whose manifests are stored; `problem` says why the latest one is not."""

    classes: frozenset[str]
    problem: str = ""


@dataclass(frozen=True)
class SaveManifest:
    """Stores the manifest of a class in the Secret, and removes the manifests that fall out of the history.

    A manifest that is too large is not stored. If the Secret has no room for the others beside it, they are removed.
    """

    addon: Mapping[str, Any]
    class_name: str
    objects: Sequence[Object]

    def execute(self, clients: Clients) -> SavedManifests:
        """Writes the Secret; raises `ApiError` if the API server fails."""
        packed = pack(list(self.objects), _MAX_BYTES)
        before = {entry["clusterStack"] for entry in dig(self.addon, "status.history", [])}
        if not packed:
            problem = (
                f"the manifest of {self.class_name} is too large to store, so a rollback to this class is not possible"
            )
            return SavedManifests(frozenset(before - {self.class_name}), problem)
        others = frozenset(entry["clusterStack"] for entry in _other_entries(self.addon, self.class_name))
        manifest = {self.class_name: packed}
        try:
            self._write(clients, dict.fromkeys(before - others) | manifest)
        except ForeignSecret as error:
            return SavedManifests(frozenset(), str(error))
        except ApiError as error:
            if not others or error.status not in (413, 422):
                raise
            self._write(clients, dict.fromkeys(before) | manifest)
            others = frozenset()
        return SavedManifests(others | {self.class_name})

    def _write(self, clients: Clients, data: Mapping[str, str | None]) -> None:
        """Patches or creates the Secret; None removes a manifest. Raises `ForeignSecret`."""
        key = _key(self.addon)
        if dig(self.addon, "status.history") and (self._patch(clients, data) or self._update(clients, data)):
            return
        body: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "ownerReferences": [owner_reference(self.addon)],
            },
            "data": {name: value for name, value in data.items() if value},
        }
        try:
            clients.management.create(SECRET, body)
        except Conflict as error:
            if not (error.already_exists and self._update(clients, data)):
                raise

    def _patch(self, clients: Clients, data: Mapping[str, str | None]) -> bool:
        """Patches the Secret without a read; returns False if it does not exist, or others have changed it.

        The first operation of the patch proves that the addon owns the Secret.
        """
        owner = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": self.addon["metadata"]["uid"]}
        changes = (
            {"op": "remove", "path": f"/data/{name}"}
            if value is None
            else {"op": "add", "path": f"/data/{name}", "value": value}
            for name, value in data.items()
        )
        try:
            clients.management.json_patch(SECRET, _key(self.addon), [owner, *changes], manager=MANAGER)
        except ApiError as error:
            if error.status not in (404, 422):
                raise
            return False
        return True

    def _update(self, clients: Clients, data: Mapping[str, str | None]) -> bool:
        """Patches the Secret regardless of its other content; returns False if it does not exist."""
        secret = clients.management.find(SECRET, _key(self.addon))
        if secret is None:
            return False
        if not owned_by(secret, self.addon):
            raise ForeignSecret(_foreign_secret_message(self.addon))
        patch: Object = {"metadata": {"uid": secret["metadata"]["uid"]}, "data": dict(data)}
        clients.management.patch(SECRET, key_of(secret), patch, manager=MANAGER)
        return True


class ForeignSecret(Exception):
    """The Secret for the manifests is owned by another object."""


def _foreign_secret_message(addon: Mapping[str, Any]) -> str:
    return (
        f"Secret {secret_key(addon, 'manifests')} for the manifests is not owned by ClusterAddon {key_of(addon).name}, "
        "so no rollback is possible until that Secret is deleted"
    )
