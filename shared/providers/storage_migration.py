"""Migrates custom resources to another stored version before an upgrade of their CRD removes their version.

The API server allows the removal of a version from `spec.versions` only once `status.storedVersions` does not list it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.clients import Clients
from shared.kube import MANAGER, ApiError, Conflict, NotFound, Object, Resource, dig, key_of
from shared.kube.crds import CRD


def removed_versions(live: Mapping[str, Any], desired: Mapping[str, Any]) -> list[str]:
    """Returns the versions that objects of the CRD `live` may be stored in and that the CRD `desired` does not have."""
    kept = {version["name"] for version in dig(desired, "spec.versions", [])}
    return [version for version in dig(live, "status.storedVersions", []) if version not in kept]


def _versions_of(crd: Object) -> tuple[object, ...]:
    """Returns a value that changes whenever the CRD's versions or stored versions change."""
    return dig(crd, "metadata.uid"), dig(crd, "metadata.generation"), dig(crd, "status.storedVersions")


class NoCommonVersion(ApiError):
    """The present CRD and the new one have no version in common that objects can be stored in."""


@dataclass(frozen=True)
class MigrateStorage:
    """Effect: rewrites every object of the CRD `live` in a version that the CRD `desired` keeps.

    Its result is the number of objects. Raises `NoCommonVersion`, `Conflict` if the versions change meanwhile, and
    `ApiError` if a write is refused.
    """

    live: Object
    desired: Object

    def execute(self, clients: Clients) -> int:
        """Carries out the effect; see the class."""
        live = self._with_common_storage(clients)
        stored = next(version["name"] for version in dig(live, "spec.versions") if version.get("storage"))
        names = dig(live, "spec.names")
        namespaced = dig(live, "spec.scope") == "Namespaced"
        resource = Resource(dig(live, "spec.group"), stored, names["kind"], names["plural"], namespaced)
        count = 0
        for obj in clients.management.list(resource):
            self._rewrite(clients, resource, obj)
            count += 1
        self._set_stored_version(clients, live, stored)
        return count

    def _set_stored_version(self, clients: Clients, live: Object, stored: str) -> None:
        """Records in the CRD's status that all objects are stored in version `stored`.

        Raises `Conflict` if the CRD's versions have changed since the objects were listed, because objects that were
        written meanwhile may be stored in another version.
        """
        while True:
            metadata = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
            patch: Object = {"metadata": metadata, "status": {"storedVersions": [stored]}}
            try:
                clients.management.patch(CRD, key_of(live), patch, subresource="status")
                return
            except Conflict as error:
                newer = clients.management.get(CRD, key_of(live))
                error.raise_if_refused(live, newer, "resourceVersion")
                if _versions_of(newer) != _versions_of(live):
                    raise
                live = newer  # only conditions or metadata changed

    def _with_common_storage(self, clients: Clients) -> Object:
        """Returns the CRD with a storage version that `desired` keeps; changes the storage version first if need be."""
        versions = dig(self.live, "spec.versions", [])
        kept = {version["name"]: version for version in dig(self.desired, "spec.versions", [])}
        if any(version.get("storage") and version["name"] in kept for version in versions):
            return self.live
        common = [version["name"] for version in versions if version["name"] in kept and version.get("served")]
        if not common:
            gone = ", ".join(version["name"] for version in versions)
            raise NoCommonVersion(
                f"CRD {self.live['metadata']['name']}: the new CRD has none of the present versions ({gone}); first "
                "upgrade to a release whose CRD has one of them"
            )
        target = next((name for name in common if kept[name].get("storage")), common[-1])
        changed = [{**version, "storage": version["name"] == target} for version in versions]
        metadata = {"resourceVersion": self.live["metadata"]["resourceVersion"]}
        patch: Object = {"metadata": metadata, "spec": {"versions": changed}}
        return clients.management.patch(CRD, key_of(self.live), patch, manager=MANAGER)

    def _rewrite(self, clients: Clients, resource: Resource, obj: Object) -> None:
        """Sends a patch without changes: the API server then stores the object in the CRD's storage version."""
        try:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            clients.management.patch(resource, key_of(obj), {"metadata": metadata}, manager=MANAGER)
        except NotFound:
            return  # a deleted object needs none
        except Conflict as error:  # a concurrent write has the same result
            error.raise_if_refused(obj, clients.management.find(resource, key_of(obj)), "resourceVersion")
