"""The effects that create releases and their providers' objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.effects import Create, Effect
from shared.kube import ApiError, Conflict, Key, NotFound, Object, Unavailable, deleting, dig, key_of, owner_reference
from shared.releases import usage

from .conditions import PROVIDER, RELEASES
from .observe import Rejection
from .provider import ProviderTemplate


@dataclass(frozen=True)
class Attempt:
    """Executes one of several independent writes: a rejection becomes its result, so that the others still run."""

    effect: Effect
    condition: str

    def execute(self, clients: Clients) -> Any:
        try:
            return self.effect.execute(clients)
        except (Unavailable, Conflict, NotFound):
            raise  # a retry may succeed
        except ApiError as error:
            return Rejection(self.condition, str(error))


def create_releases(stack: Object, tags: list[str], template: ProviderTemplate | str) -> list[Effect]:
    """Returns the effects that create the releases of these tags, each with its provider's object if there is one."""
    effects: list[Effect] = []
    for tag in tags:
        key = Key(key_of(stack).namespace, tag)
        release: Object = {
            "apiVersion": CLUSTER_STACK_RELEASE.api_version,
            "kind": CLUSTER_STACK_RELEASE.kind,
            "metadata": {
                **key._asdict(),
                "ownerReferences": [owner_reference(stack)],
                # Set from the start, so that the release cannot disappear before its objects are cleaned up.
                "finalizers": [usage.FINALIZER],
            },
            "spec": {"providerRef": template.reference(key)} if isinstance(template, ProviderTemplate) else {},
        }
        effects.append(Attempt(Create(CLUSTER_STACK_RELEASE, release), RELEASES))
        if isinstance(template, ProviderTemplate):
            effects.append(Attempt(template.clone(key, stack), PROVIDER))
    return effects


def update_provider_objects(stack: Object, releases: list[Object], template: ProviderTemplate | str) -> list[Effect]:
    """Returns the effects that update providers' objects, after a change of the template or an interrupted attempt."""
    if not isinstance(template, ProviderTemplate):
        return []
    having = (release for release in releases if dig(release, "spec.providerRef.kind") == template.kind)
    return [Attempt(template.clone(key_of(release), stack), PROVIDER) for release in having if not deleting(release)]
