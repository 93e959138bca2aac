"""The releases go first. Each waits by itself for the Clusters that use it, and says so."""

from __future__ import annotations

from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.effects import Delete, RemoveFinalizer
from shared.kube import Object, deleting, dig, has_finalizer, key_of
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

from .conditions import RELEASES
from .observe import Observed

FINALIZER = "clusterstack.clusterstack.x-k8s.io"
"""Keeps the ClusterStack until its releases are gone, which may wait for the Clusters that use them."""

DELETION_RETRY = 20.0
"""Seconds until the next look."""


def let_go(builder: V1Beta1StatusBuilder, observed: Observed) -> Decision:
    stack = observed.stack or {}
    if not has_finalizer(stack, FINALIZER):
        return Decision(message="being deleted")
    if not observed.releases:
        return Decision(effects=(RemoveFinalizer(CLUSTER_STACK, stack, FINALIZER),), message="let go")
    lines = [f"{key_of(release).name}{_why(release)}" for release in observed.releases]
    builder.set_false(RELEASES, "Deleting", f"waiting for releases to go: {'; '.join(lines)}")
    return Decision(
        effects=tuple(Delete(CLUSTER_STACK_RELEASE, r) for r in observed.releases if not deleting(r)),
        status=builder.status(),
        requeue_after=DELETION_RETRY,
        message="waiting for releases to go",
    )


def _why(release: Object) -> str:
    held = get_condition(dig(release, "status.conditions", []), "HelmChartDeleted") or {}
    return f" ({held['message']})" if held.get("message") else ""
