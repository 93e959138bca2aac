"""Decides about a HelmReleaseProxy that is being deleted: its release is uninstalled before its finalizer goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed
from shared.effects import Effect, RemoveFinalizer, Results, write_ahead
from shared.helm_proxies.names import HRP_FINALIZER, INSTALL_ONCE
from shared.helm_proxies.release_record import UNINSTALLING
from shared.kube import dig, has_finalizer
from shared.runtime import Decision

from .findings import Observed, Problem, Removal
from .rollout import ReleaseIncomplete, RemoveRelease
from .status import CLUSTER_AVAILABLE, RELEASE_READY, ReleaseStatusBuilder

CLUSTER_RETRY = 10.0
HOOK_RETRY = 5.0
FAILURE_RETRY = 30.0


def reconcile_deletion(builder: ReleaseStatusBuilder, observed: Observed, results: Results | None) -> Decision:
    """Uninstalls the release, and removes the finalizer.

    The release stays if its Cluster is gone, if it was to be installed once, or if another HelmReleaseProxy has it.
    """
    proxy, finding = builder.obj, observed.finding
    if not has_finalizer(proxy, HRP_FINALIZER):
        return Decision(message="being deleted")
    remove = RemoveFinalizer(HELM_RELEASE_PROXY, proxy, HRP_FINALIZER)
    if dig(proxy, "spec.reconcileStrategy") == INSTALL_ONCE:
        return Decision((remove,), message="reconcileStrategy is InstallOnce: the release stays, finalizer removed")
    match finding:
        case ConnectionFailed(message):
            absent = observed.cluster is None
            builder.set_false(CLUSTER_AVAILABLE, "GetClusterFailed" if absent else "GetKubeconfigFailed", message)
            text = (
                f"{message}: functions uninstall the release once the cluster answers, and forget it once the Cluster "
                "is deleted"
            )
            return builder.decision(requeue_after=CLUSTER_RETRY, message=text)
        case Problem(message):
            builder.fail(message, "HelmReleaseGetFailed")
            return builder.decision(requeue_after=FAILURE_RETRY, message=message)
        case Removal():
            return _remove(builder, finding, remove, results)
    return Decision((remove,), message="nothing to uninstall, finalizer removed")


def _remove(
    builder: ReleaseStatusBuilder, removal: Removal, remove: RemoveFinalizer, results: Results | None
) -> Decision:
    builder.cluster_available()
    name = f"release {removal.release.name}"
    if results is not None and isinstance(results.error, ReleaseIncomplete):
        error = results.error
        if error.waiting:
            builder.set_false(RELEASE_READY, "HelmReleasePending", str(error))
        else:
            builder.fail(str(error), "HelmReleaseDeletionFailed")
        fields: dict[str, Any] = {} if error.entries is None else {"resources": inventory.dump(error.entries)}
        seconds = HOOK_RETRY if error.waiting else FAILURE_RETRY
        message = f"{name}: {error}"
        decision = builder.decision(requeue_after=seconds, message=message, **fields)
        return replace(decision, reports=error)
    known = {entry.identity for entry in removal.entries}
    hooks = [entry for entry in map(inventory.entry_of, removal.hooks) if entry.identity not in known]
    intent = {"status": UNINSTALLING, "resources": inventory.dump([*removal.entries, *hooks])}
    effects: tuple[Effect, ...] = (
        *write_ahead(HELM_RELEASE_PROXY, builder.obj, intent if hooks else {"status": UNINSTALLING}),
        RemoveRelease(removal, builder.now),
        remove,
    )
    return Decision(effects, message=f"{name} uninstalled, finalizer removed")
