"""Why nothing may be done, each with what is said of it."""

from __future__ import annotations

from shared.addons import manifest_history, stored_values
from shared.api import cluster as cluster_api
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.applier.connection import ConnectionFailed
from shared.applier.policy import PolicyError
from shared.effects import Effect, RemoveFinalizer
from shared.kube import Object, deleting, dig, has_finalizer
from shared.releases import missing
from shared.releases.missing import MissingAssets
from shared.releases.source_resolution import ReleaseNotShared
from shared.runtime import Decision

from .status import AddonStatus
from .waits import ASSETS_RETRY, BROKEN_RETRY, CLUSTER_RETRY, wait


def finalize(addon: Object) -> Decision:
    """Without its Cluster an addon has nothing to do: the objects go with the workload cluster."""
    if not deleting(addon) or not has_finalizer(addon, ADDON_FINALIZER):
        return Decision(message="the Cluster is going away")
    forget: tuple[Effect, ...] = (manifest_history.DeleteManifests(addon),) if dig(addon, "status.history") else ()
    if dig(addon, "status.digest"):  # something was rendered, and so may have been generated
        forget += (stored_values.DeleteValues(addon),)
    return Decision(effects=(*forget, RemoveFinalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)), message="let go")


def paused(builder: AddonStatus) -> Decision:
    builder.set_false(
        "ClusterReady", "Paused", "The Cluster is paused: its addons are left as they are", event_type="Normal"
    )
    ready = dig(builder.obj, "status.ready") is True and not builder.is_new_target
    return Decision(
        status=builder.status(ready=ready), kubernetes_events=tuple(builder.kubernetes_events), message="paused"
    )


def misconfigured(builder: AddonStatus, error: PolicyError) -> Decision:
    builder.set_false("ClusterAddonConfigValidated", "InvalidAnnotation", str(error), "Error", event_type="Warning")
    return wait(builder, BROKEN_RETRY, str(error))


def no_cluster_stack(builder: AddonStatus, cluster: Object) -> Decision:
    name = cluster_api.class_name(cluster)
    what = f"class {name} names no cluster stack" if name else "the Cluster has no class"
    message = f"{what}: its addons are left as they are; a class of a cluster stack is called like local-demo-1-36-v1"
    builder.set_false(missing.CONDITION, "NoClusterStack", message, "Warning", event_type="Warning")
    return Decision(status=builder.status(ready=False), kubernetes_events=tuple(builder.kubernetes_events))


def connection_failed(builder: AddonStatus, problem: ConnectionFailed) -> Decision:
    # Else it is how each cluster begins, and no news.
    news = builder.is_true("ClusterReady") or problem.severity == "Error"
    builder.set_false(
        "ClusterReady", "ControlPlaneNotReady", problem.message, problem.severity, event_type="Warning" if news else ""
    )
    return wait(builder, CLUSTER_RETRY, problem.message)


def not_shared(builder: AddonStatus, found: ReleaseNotShared) -> Decision:
    builder.set_false(missing.CONDITION, "ReleaseNotShared", found.message, "Error", event_type="Warning")
    return wait(builder, BROKEN_RETRY, found.message)


def not_stored(builder: AddonStatus, cluster: Object, lost: MissingAssets) -> Decision:
    if lost.failure:
        builder.set_false(missing.CONDITION, lost.reason, lost.message, "Error", event_type="Warning")
    else:
        builder.set_false(missing.CONDITION, lost.reason, lost.message)
    place = cluster_api.class_namespace(cluster)
    wanted = lost.fetch_request(builder.obj, place, builder.now, source="/addon_apply", every=ASSETS_RETRY)
    return wait(builder, ASSETS_RETRY, lost.message, reply=wanted)
