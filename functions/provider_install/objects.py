"""Everything that a provider is to have in the cluster, from its rendered components: pure.

In its namespace it owns what it brings, by which a Deployment leads back to it. Where certificates are ours, their
Secrets and CAs take the place of cert-manager's objects. clusterctl's own record is kept for its commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import provider as provider_api
from shared.api.resources import CLUSTERCTL_PROVIDER
from shared.components import certificates
from shared.kube import Key, Object, Resource, key_of, owner_reference
from shared.manifests import identity


def all_of(
    provider: Object,
    rendered: Sequence[Object],
    secrets: Mapping[Key, Object],
    served: Mapping[tuple[str, str], Resource],
) -> list[Object]:
    """`secrets` by the keys of the Certificates that they are for; empty where these are left to cert-manager."""
    components = certificates.with_own(rendered, secrets) if secrets else rendered
    kept = [_kept(provider, secret) for secret in secrets.values()]
    return [*_owned(components, provider), *_listed(provider, served), *kept]


def _owned(objects: Sequence[Object], provider: Object) -> list[Object]:
    """With the provider as the owner of all that is in its namespace, by which a Deployment leads back to it."""
    namespace, result = key_of(provider).namespace, []
    for obj in objects:
        if identity(obj).namespace == namespace:
            obj = {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner_reference(provider)]}}
        result.append(obj)
    return result


def labels(provider: Object) -> dict[str, str]:
    return {provider_api.COMPONENT_LABEL: "", provider_api.PROVIDER_LABEL: provider_api.label_of(provider)}


def _kept(provider: Object, secret: Object) -> Object:
    """The Secret as an object to apply: what was read, as the provider's own, whoever made it."""
    metadata = {
        "name": secret["metadata"]["name"],
        "namespace": secret["metadata"]["namespace"],
        "labels": labels(provider),
        "ownerReferences": [owner_reference(provider)],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret["type"], "data": secret["data"]}


def _listed(provider: Object, served: Mapping[tuple[str, str], Resource]) -> list[Object]:
    """clusterctl's own record of the provider, so that its commands find it."""
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
