"""Moving custom resources to the version that a CRD goes on storing, before an upgrade takes the old one away.

As the API server's rule is: a version may leave `spec.versions` only once `status.storedVersions` does not name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.clients import Clients
from shared.effects import MANAGER
from shared.kube import ApiError, Conflict, NotFound, Object, Resource, dig, key_of
from shared.kube.crds import CRD


def dropped(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The versions that objects may be stored in and that `wanted` does not have any more."""
    kept = {version["name"] for version in dig(wanted, "spec.versions", [])}
    return [version for version in dig(live, "status.storedVersions", []) if version not in kept]


def _versions_of(crd: Object) -> tuple[object, ...]:
    """What changes with every change of the versions that a CRD has or stores."""
    return dig(crd, "metadata.uid"), dig(crd, "metadata.generation"), dig(crd, "status.storedVersions")


class NoCommonVersion(ApiError):
    """Objects cannot be stored in any version that both the present CRD and the new one have."""


@dataclass(frozen=True)
class MigrateStorage:
    """Has every object of the CRD `live` written in a version that `wanted` keeps. Returns how many there are.

    Raises `NoCommonVersion`, and `Conflict` if the CRD's versions change meanwhile.
    """

    live: Object
    wanted: Object

    def execute(self, clients: Clients) -> int:
        live = self._with_common_storage(clients)
        stored = next(version["name"] for version in dig(live, "spec.versions") if version.get("storage"))
        names = dig(live, "spec.names")
        namespaced = dig(live, "spec.scope") == "Namespaced"
        resource = Resource(dig(live, "spec.group"), stored, names["kind"], names["plural"], namespaced)
        count = 0
        for obj in clients.management.list(resource):
            self._rewrite(clients, resource, obj)
            count += 1
        self._forget_versions(clients, live, stored)
        return count

    def _forget_versions(self, clients: Clients, live: Object, stored: str) -> None:
        """Records that all objects are stored in this version.

        What was written meanwhile is, too, as long as the CRD is as it was when they were listed: if it stored another
        version in between, even for a moment, nobody knows of the objects of that moment.
        """
        while True:
            metadata = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
            patch: Object = {"metadata": metadata, "status": {"storedVersions": [stored]}}
            try:
                clients.management.patch(CRD, key_of(live), patch, subresource="status")
                return
            except Conflict:
                newer = clients.management.get(CRD, key_of(live))
                if _versions_of(newer) != _versions_of(live):
                    raise
                live = newer  # its conditions changed, or somebody annotated it

    def _with_common_storage(self, clients: Clients) -> Object:
        """The CRD as it is, unless it stores a version that goes: then first with one that stays as the storage."""
        versions = dig(self.live, "spec.versions", [])
        kept = {version["name"]: version for version in dig(self.wanted, "spec.versions", [])}
        if any(version.get("storage") and version["name"] in kept for version in versions):
            return self.live
        common = [version["name"] for version in versions if version["name"] in kept and version.get("served")]
        if not common:
            gone = ", ".join(version["name"] for version in versions)
            raise NoCommonVersion(
                f"CRD {self.live['metadata']['name']}: the new one has none of the versions {gone}; "
                "upgrade by way of a release that has one of them, too"
            )
        target = next((name for name in common if kept[name].get("storage")), common[-1])
        changed = [{**version, "storage": version["name"] == target} for version in versions]
        metadata = {"resourceVersion": self.live["metadata"]["resourceVersion"]}
        patch: Object = {"metadata": metadata, "spec": {"versions": changed}}
        return clients.management.patch(CRD, key_of(self.live), patch, manager=MANAGER)

    def _rewrite(self, clients: Clients, resource: Resource, obj: Object) -> None:
        """A write that changes nothing is stored anew where the stored version is another one."""
        try:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            clients.management.patch(resource, key_of(obj), {"metadata": metadata}, manager=MANAGER)
        except (Conflict, NotFound):
            return  # written by somebody else meanwhile, which does it as well, or gone
