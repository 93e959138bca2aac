"""Why nothing may be done, each with what is said of it."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.applier.policy import PolicyError
from shared.applier.reach import Unreachable
from shared.effects import Effect, RemoveFinalizer
from shared.kube import Object, deleting, dig, has_finalizer
from shared.releases import missing
from shared.releases.missing import MissingAssets
from shared.releases.origin import NotShared
from shared.runtime import Decision

from . import generated, history
from .status import AddonStatus
from .waits import ASSETS_RETRY, BROKEN_RETRY, CLUSTER_RETRY, waiting


def let_go(addon: Object) -> Decision:
    """Without its Cluster an addon has nothing to do: the objects go with the workload cluster."""
    if not deleting(addon) or not has_finalizer(addon, ADDON_FINALIZER):
        return Decision(message="the Cluster is going away")
    forget: tuple[Effect, ...] = (history.Forget(addon),) if dig(addon, "status.history") else ()
    if dig(addon, "status.digest"):  # something was rendered, and so may have been generated
        forget += (generated.Forget(addon),)
    return Decision(effects=(*forget, RemoveFinalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)), message="let go")


def paused(verdict: AddonStatus) -> Decision:
    verdict.false("ClusterReady", "Paused", "The Cluster is paused: its addons are left as they are", tell="Normal")
    ready = dig(verdict.obj, "status.ready") is True and not verdict.is_new
    return Decision(status=verdict.status(ready=ready), notices=tuple(verdict.notices), message="paused")


def misconfigured(verdict: AddonStatus, error: PolicyError) -> Decision:
    verdict.false("ClusterAddonConfigValidated", "InvalidAnnotation", str(error), "Error", tell="Warning")
    return waiting(verdict, BROKEN_RETRY, str(error))


def no_cluster_stack(verdict: AddonStatus, cluster: Object) -> Decision:
    name = cluster_api.class_name(cluster)
    what = f"class {name} names no cluster stack" if name else "the Cluster has no class"
    message = f"{what}: its addons are left as they are; a class of a cluster stack is called like local-demo-1-36-v1"
    verdict.false(missing.CONDITION, "NoClusterStack", message, "Warning", tell="Warning")
    return Decision(status=verdict.status(ready=False), notices=tuple(verdict.notices))


def not_reached(verdict: AddonStatus, problem: Unreachable) -> Decision:
    # Else it is how each cluster begins, and no news.
    news = verdict.is_true("ClusterReady") or problem.severity == "Error"
    verdict.false(
        "ClusterReady", "ControlPlaneNotReady", problem.message, problem.severity, tell="Warning" if news else ""
    )
    return waiting(verdict, CLUSTER_RETRY, problem.message)


def not_shared(verdict: AddonStatus, found: NotShared) -> Decision:
    verdict.false(missing.CONDITION, "ReleaseNotShared", found.message, "Error", tell="Warning")
    return waiting(verdict, BROKEN_RETRY, found.message)


def not_downloaded(verdict: AddonStatus, cluster: Object, lost: MissingAssets) -> Decision:
    if lost.failure:
        verdict.false(missing.CONDITION, lost.reason, lost.message, "Error", tell="Warning")
    else:
        verdict.false(missing.CONDITION, lost.reason, lost.message)
    place = cluster_api.class_namespace(cluster)
    wanted = lost.wish(verdict.obj, place, verdict.now, source="/addon_apply", every=ASSETS_RETRY)
    return waiting(verdict, ASSETS_RETRY, lost.message, reply=wanted)
