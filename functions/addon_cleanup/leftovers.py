"""Finds the objects of a workload cluster whose cloud resources would outlive it: load balancers and volumes.

These are Services of type LoadBalancer, and PersistentVolumes that are deleted with their PersistentVolumeClaim.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.api.resources import POD, SERVICE
from shared.kube import Key, Object, Resource, deleting, dig, key_of

CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
MOST = 4 * 2**20
"""The maximum size, in bytes of JSON, of the objects of one kind in one reconciliation: about a thousand objects."""


@dataclass(frozen=True)
class Leftovers:
    """Services, claims and volumes with cloud resources. `pods` use the claims, and block their deletion."""

    services: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    pods: Sequence[Object] = ()

    @property
    def removable(self) -> list[tuple[Resource, Object]]:
        """The services, pods and claims that are not being deleted yet; the provisioner deletes the volumes."""
        kinds = ((SERVICE, self.services), (POD, self.pods), (CLAIM, self.claims))
        return [(resource, obj) for resource, objects in kinds for obj in objects if not deleting(obj)]

    @property
    def awaited(self) -> list[str]:
        """The objects whose deletion the clean-up waits for, as kind and name."""
        kinds = ((SERVICE, self.services), (CLAIM, self.claims), (VOLUME, self.volumes))
        return [f"{resource.kind} {key_of(obj)}" for resource, objects in kinds for obj in objects]


def leftovers(
    services: Iterable[Object], claims: Iterable[Object], volumes: Iterable[Object], pods: Iterable[Object]
) -> Leftovers:
    """Returns the leftovers among the objects of a workload cluster; if they are very many, only a part.

    The lists may have more objects than fit into memory. `pods` are only read if there are claims.
    """
    deleted_volumes = _part(volume for volume in volumes if _is_deleted_with_claim(volume))
    # A claim without a volume has no data, but may get a volume at any time.
    volume_names = {volume["metadata"]["name"] for volume in deleted_volumes} | {""}
    deleted_claims = _part(claim for claim in claims if (dig(claim, "spec.volumeName") or "") in volume_names)
    claim_keys = {key_of(claim) for claim in deleted_claims}
    return Leftovers(
        _part(service for service in services if dig(service, "spec.type") == "LoadBalancer"),
        deleted_claims,
        deleted_volumes,
        _part(pod for pod in pods if claim_keys & _claims_of(pod)) if claim_keys else (),
    )


def _part(objects: Iterable[Object]) -> list[Object]:
    """Returns the objects within the limit `MOST`, which counts objects that are being deleted separately."""
    part: list[Object] = []
    sizes = {True: 0, False: 0}
    for obj in objects:
        sizes[deleting(obj)] += len(json.dumps(obj))
        if sizes[deleting(obj)] <= MOST:
            part.append(obj)
    return part


def _is_deleted_with_claim(volume: Object) -> bool:
    """Returns whether the volume is deleted with its claim. A volume without a claim was provisioned by hand."""
    delete = dig(volume, "spec.persistentVolumeReclaimPolicy") == "Delete"
    return delete and dig(volume, "spec.claimRef") is not None


def _claims_of(pod: Object) -> set[Key]:
    """Returns the claims that a Pod uses: named ones, and ephemeral ones named after the Pod and its volume."""
    metadata = pod["metadata"]
    names: set[Any] = set()
    for volume in dig(pod, "spec.volumes", []):
        names.add(dig(volume, "persistentVolumeClaim.claimName"))
        names |= {f"{metadata['name']}-{volume['name']}"} if "ephemeral" in volume else set()
    return {Key(metadata["namespace"], name) for name in names if name}
