"""What is written about the releases that are wanted: each with its provider's object, from the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.effects import Create, Effect
from shared.kube import ApiError, Conflict, Key, NotFound, Object, Unavailable, deleting, dig, key_of, owner_reference
from shared.releases import usage

from .conditions import PROVIDER, RELEASES
from .observe import Refusal
from .provider import Blueprint


@dataclass(frozen=True)
class Attempt:
    """One of several writes that do not need each other: a refusal is its result, so that the others go on."""

    effect: Effect
    condition: str

    def execute(self, clients: Clients) -> Any:
        try:
            return self.effect.execute(clients)
        except (Unavailable, Conflict, NotFound):
            raise  # a retry may mend it
        except ApiError as error:
            return Refusal(self.condition, str(error))


def creations(stack: Object, tags: list[str], plan: Blueprint | str) -> list[Effect]:
    effects: list[Effect] = []
    for tag in tags:
        key = Key(key_of(stack).namespace, tag)
        release: Object = {
            "apiVersion": CLUSTER_STACK_RELEASE.api_version,
            "kind": CLUSTER_STACK_RELEASE.kind,
            "metadata": {
                **key._asdict(),
                "ownerReferences": [owner_reference(stack)],
                # From the start: what it owns is never without somebody to clear it away.
                "finalizers": [usage.FINALIZER],
            },
            "spec": {"providerRef": plan.reference(key)} if isinstance(plan, Blueprint) else {},
        }
        effects.append(Attempt(Create(CLUSTER_STACK_RELEASE, release), RELEASES))
        if isinstance(plan, Blueprint):
            effects.append(Attempt(plan.clone(key, stack), PROVIDER))
    return effects


def updates(stack: Object, releases: list[Object], plan: Blueprint | str) -> list[Effect]:
    """The template may have changed, or an earlier attempt have ended half-way."""
    if not isinstance(plan, Blueprint):
        return []
    having = (release for release in releases if dig(release, "spec.providerRef.kind") == plan.kind)
    return [Attempt(plan.clone(key_of(release), stack), PROVIDER) for release in having if not deleting(release)]
