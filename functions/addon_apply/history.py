"""The manifests that were last applied completely, for going back without the release that they came from.

They may hold Secrets, so a Secret beside the ClusterAddon keeps them (compressed), as Helm does it. A rollback is asked
for by an annotation that names the class to stay away from; it ends when the Cluster gets another class or the
annotation goes.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, rfc3339
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import MANAGER
from shared.kube import Key, NotFound, Object, dig, key_of, owner_reference
from shared.workload.policy import PREFIX

ROLLBACK = PREFIX + "rollback-from"
ROLLED_BACK = "RolledBack"
"""Reason of HelmChartApplied while a rollback holds."""

LENGTH = 2
_MOST_BYTES = 700_000
"""Of one manifest, compressed: a Secret may have a MiB in all, base64 and the other manifest included."""
_MOST_UNPACKED = 64 * 2**20


@dataclass(frozen=True)
class Kept:
    """A manifest that was applied completely once; `problem` says why there is none."""

    class_name: str = ""
    version: str = ""
    objects: tuple[Object, ...] = ()
    problem: str = ""


def asked(addon: Object, cluster: Object) -> bool:
    """Whether the Cluster's class is the one to stay away from."""
    unwanted = dig(addon, ("metadata", "annotations", ROLLBACK))
    return bool(unwanted) and unwanted == cluster_api.class_name(cluster)


def holds(addon: Object, cluster: Object) -> bool:
    """True once the rollback that is asked for is done."""
    condition = get_condition(dig(addon, "status.conditions", []), "HelmChartApplied") or {}
    return asked(addon, cluster) and condition.get("reason") == ROLLED_BACK


def read(clients: Clients, addon: Object) -> Kept:
    """The newest manifest that is not of the class to stay away from."""
    unwanted = dig(addon, ("metadata", "annotations", ROLLBACK))
    entries = [entry for entry in dig(addon, "status.history", []) if entry.get("clusterStack") != unwanted]
    if not entries:
        return Kept(problem=f"there is no manifest of anything but {unwanted} to go back to")
    entry = entries[0]
    secret = clients.management.find(SECRET, _key(addon)) or {}
    data = dig(secret, ("data", entry["clusterStack"]))
    if not data:
        return Kept(problem=f"Secret {_key(addon)} has no manifest of {entry['clusterStack']}")
    try:
        with gzip.GzipFile(fileobj=_bytes(data)) as stream:
            objects = json.loads(stream.read(_MOST_UNPACKED))
    except (OSError, ValueError, EOFError) as error:
        return Kept(problem=f"Secret {_key(addon)}: the manifest of {entry['clusterStack']} is damaged: {error}")
    return Kept(entry["clusterStack"], entry.get("version", ""), tuple(objects))


def _bytes(data: str) -> Any:
    import io

    return io.BytesIO(base64.b64decode(data))


def longer(addon: Object, class_name: str, version: str, digest: str, now: datetime) -> list[Object]:
    """`status.history` with this one on top, each class once."""
    newest = {"clusterStack": class_name, "version": version, "digest": digest, "at": rfc3339(now)}
    older = [entry for entry in dig(addon, "status.history", []) if entry.get("clusterStack") != class_name]
    return [newest, *older][:LENGTH]


@dataclass(frozen=True)
class Remember:
    """Puts the manifest of a class into the Secret; those that fall out of the history go."""

    addon: Mapping[str, Any]
    class_name: str
    objects: Sequence[Object]

    def execute(self, clients: Clients) -> None:
        packed = gzip.compress(json.dumps(list(self.objects), separators=(",", ":")).encode(), 6, mtime=0)
        if len(packed) > _MOST_BYTES:
            return  # too large to go back to; the next upgrade works all the same
        kept = {entry["clusterStack"] for entry in dig(self.addon, "status.history", [])[: LENGTH - 1]}
        gone = {entry["clusterStack"] for entry in dig(self.addon, "status.history", [])} - kept
        data: Object = dict.fromkeys(gone) | {self.class_name: base64.b64encode(packed).decode()}
        key = _key(self.addon)
        try:
            if dig(self.addon, "status.history"):
                clients.management.patch(SECRET, key, {"data": data}, manager=MANAGER)
                return
        except NotFound:
            pass
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
        clients.management.apply(SECRET, body, manager=MANAGER)


@dataclass(frozen=True)
class Forget:
    """Deletes the Secret, also where no garbage collector runs."""

    addon: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        clients.management.delete(SECRET, _key(self.addon))


def _key(addon: Mapping[str, Any]) -> Key:
    namespace, name = key_of(addon)
    return Key(namespace, f"{name}-manifests")
