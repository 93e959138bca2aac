"""Clones the provider's object for a release from the template that the ClusterStack refers to."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier.diff import is_applied
from shared.clients import Clients
from shared.kube import MANAGER, ApiError, Key, Object, Resource, deleting, dig, key_of, owned_by, owner_reference
from shared.references import LookupResult
from shared.releases.naming import is_provider_release

TEMPLATE = "Template"
RELEASE = "ClusterStackRelease"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class ProviderTemplate:
    """The common content of the provider's objects of all releases."""

    api_version: str
    kind: str
    body: Object

    def reference(self, release: Key) -> Object:
        """Returns the `spec.providerRef` of a release."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": release.namespace,
            "name": release.name,
        }

    def clone(self, release: Key, stack: Object) -> CloneTemplate:
        """Returns the effect that creates or updates the provider's object of a release."""
        body = deepcopy(self.body)
        body["metadata"] |= {"namespace": release.namespace, "name": release.name}
        return CloneTemplate(stack, release, body)


def read_template(template: LookupResult, stack: Object) -> ProviderTemplate | str:
    """Returns the template's content, or why it cannot be used.

    Only kinds named `<Provider>ClusterStackReleaseTemplate` are accepted, because otherwise the author of a
    ClusterStack could create objects of any kind.
    """
    if template.state == "absent":
        return f"{template.kind} {dig(stack, 'spec.providerRef.name')} (spec.providerRef) does not exist"
    if template.object is None:
        return template.error or "spec.providerRef is needed unless spec.noProvider is true"
    kind = template.kind.removesuffix(TEMPLATE)
    if kind == template.kind or not is_provider_release(kind):
        return f"spec.providerRef: {template.kind} is not a <Provider>{RELEASE}{TEMPLATE}"
    content = dig(template.object, "spec.template")
    if not isinstance(content, dict):
        return f"{template.kind} {key_of(template.object)} has no spec.template"
    metadata: Object = {}
    for name in ("labels", "annotations"):
        entries = {**dig(content, ("metadata", name), {}), **dig(stack, ("metadata", name), {})}
        entries.pop(_LAST_APPLIED, None)
        if entries:
            metadata[name] = entries
    api_version = template.object["apiVersion"]
    body: Object = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    if content.get("spec"):
        body["spec"] = content["spec"]
    return ProviderTemplate(api_version, kind, body)


@dataclass(frozen=True)
class CloneTemplate:
    """Creates or updates the provider's object of a release of the stack; the release owns it."""

    stack: Object
    release: Key
    body: Object

    def execute(self, clients: Clients) -> Object | None:
        release = clients.management.get(CLUSTER_STACK_RELEASE, self.release)
        if deleting(release) or not owned_by(release, self.stack):
            return None
        resource = self._resource(clients)
        live = clients.management.find(resource, self.release)
        if live is not None and deleting(live):
            return live
        if live is not None and not owned_by(live, release) and not _is_orphan(live):
            raise ApiError(
                f"{resource.kind} {self.release} already exists with another owner: delete or rename it", status=409
            )
        owner = {"ownerReferences": [owner_reference(release, controller=True)]}
        body = self.body | {"metadata": self.body["metadata"] | owner}
        if live is not None and is_applied(live, body, MANAGER):
            return live
        return clients.management.apply(resource, body, manager=MANAGER)

    def _resource(self, clients: Clients) -> Resource:
        api_version, kind = self.body["apiVersion"], self.body["kind"]
        served = clients.discovery.resource(api_version, kind)
        if served is None:
            raise ApiError(f"{kind} ({api_version}) is not served: is its CRD installed?")
        if not served.namespaced:
            raise ApiError(f"{kind} ({api_version}) is cluster-scoped: the provider's object must be namespaced")
        return served


def _is_orphan(live: Object) -> bool:
    """Returns whether an object without owners was created by this project, and lost its owner in a restored backup."""
    written = (entry.get("manager") for entry in dig(live, "metadata.managedFields", []))
    return not dig(live, "metadata.ownerReferences") and MANAGER in written
