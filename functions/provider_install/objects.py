"""Builds all objects of a provider from its rendered components; pure.

Objects in the provider's namespace get an owner reference to it, which leads from a Deployment's event to the provider.
If this project issues the certificates, their Secrets and CAs replace cert-manager's objects. clusterctl's `Provider`
object is added so that clusterctl's commands find the provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import provider as provider_api
from shared.api.resources import CLUSTERCTL_PROVIDER
from shared.components import certificates
from shared.kube import Key, Object, Resource, key_of, owner_reference
from shared.manifests import identity


def all_objects(
    provider: Object,
    rendered: Sequence[Object],
    secrets: Mapping[Key, Object],
    served: Mapping[tuple[str, str], Resource],
) -> list[Object]:
    """Returns all objects to apply.

    Args:
        provider: The provider object.
        rendered: Its rendered components.
        secrets: The Secrets of certificates that this project issues, by the key of their Certificate; empty if
            cert-manager issues them.
        served: The kinds that the cluster serves, by apiVersion and kind.
    """
    components = certificates.inject_ca_bundles(rendered, secrets) if secrets else rendered
    kept = [_own_secret(provider, secret) for secret in secrets.values()]
    return [*_with_owner(components, provider), *_clusterctl_record(provider, served), *kept]


def _with_owner(objects: Sequence[Object], provider: Object) -> list[Object]:
    """Sets the owner reference on the objects in the provider's namespace."""
    namespace, result = key_of(provider).namespace, []
    for obj in objects:
        if identity(obj).namespace == namespace:
            obj = {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner_reference(provider)]}}
        result.append(obj)
    return result


def labels(provider: Object) -> dict[str, str]:
    """Returns the labels that mark the objects of the provider."""
    return {provider_api.COMPONENT_LABEL: "", provider_api.PROVIDER_LABEL: provider_api.label_of(provider)}


def _own_secret(provider: Object, secret: Object) -> Object:
    """Returns the Secret as an object to apply: its data as read, its labels and owner set to this provider's."""
    metadata = {
        "name": secret["metadata"]["name"],
        "namespace": secret["metadata"]["namespace"],
        "labels": labels(provider),
        "ownerReferences": [owner_reference(provider)],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret["type"], "data": secret["data"]}


def _clusterctl_record(provider: Object, served: Mapping[tuple[str, str], Resource]) -> list[Object]:
    """Returns clusterctl's `Provider` object, if the cluster serves that kind."""
    if (CLUSTERCTL_PROVIDER.api_version, CLUSTERCTL_PROVIDER.kind) not in served:
        return []
    key, kind, label = key_of(provider), provider_api.kind_of(provider), provider_api.label_of(provider)
    labels = {
        provider_api.COMPONENT_LABEL: "",
        provider_api.PROVIDER_LABEL: label,
        f"{provider_api.COMPONENT_LABEL}/core": "inventory",
    }
    return [
        {
            "apiVersion": CLUSTERCTL_PROVIDER.api_version,
            "kind": CLUSTERCTL_PROVIDER.kind,
            "metadata": {
                "name": label,
                "namespace": key.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(provider)],
            },
            "providerName": key.name,
            "type": kind.kind,
            "version": provider_api.spec_version(provider),
        }
    ]
