"""Decisions about ClusterAddons whose rollout is impossible now or forever.

Each decision sets a condition with the reason, except the decision that removes the finalizer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared import watch_filter
from shared.addons import manifest_history, succession
from shared.addons.secret_record import DeleteSecret
from shared.addons.status import PAUSED, names_another_cluster
from shared.api import cluster as cluster_api
from shared.api.names import ADDON_FINALIZER, SUCCESSOR_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed
from shared.applier.policy import PolicyError
from shared.effects import Delete, Effect, Patch, RemoveFinalizer, write_ahead
from shared.kube import Object, deleting, dig, has_finalizer, owners
from shared.releases.missing_assets import DOWNLOADED, MissingAssets
from shared.releases.source_resolution import ReleaseNotShared
from shared.runtime import Decision, KubernetesEvent

from .status import ASSETS_RETRY, BROKEN_RETRY, CLUSTER_RETRY, AddonStatusBuilder
from .unreconciled import MESSAGE as UNRECONCILED
from .unreconciled import is_unreconciled, report_unreconciled


def is_orphan(addon: Object) -> bool:
    """Returns whether an addon without a Cluster was created for one by a made-up event. Nothing was applied for it.

    An addon that somebody created by hand has no owner, and waits for its Cluster.
    """
    is_owned = any(owners(addon, CLUSTER.kind, CLUSTER.group))
    return is_owned and not deleting(addon) and not dig(addon, "status.resources")


def delete_orphan(addon: Object) -> Decision:
    """Decides to delete an addon whose Cluster does not exist, because a local run has no garbage collector."""
    return Decision((Delete(CLUSTER_ADDON, addon),), message="the Cluster of the ClusterAddon does not exist")


def finalize(addon: Object, cluster: Object | None) -> Decision:
    """Decides to delete the Secrets of an addon that is being deleted, and to remove its finalizer.

    The objects in the workload cluster stay, because they end with that cluster. If the Cluster stays, so does the
    addon's record, for the addon that `addon_create` creates in its place. While the Cluster is paused nothing is
    changed, because `clusterctl move` deletes the addon and the Cluster, and removes their finalizers itself.
    """
    if not deleting(addon) or not has_finalizer(addon, ADDON_FINALIZER):
        return Decision(message="the Cluster or the ClusterAddon is being deleted")
    if cluster is not None and not deleting(cluster) and cluster_api.is_paused(cluster):
        return Decision(message="paused")
    remove = RemoveFinalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)
    stays = cluster is not None and not deleting(cluster) and not names_another_cluster(addon, cluster)
    if cluster is not None and stays and succession.is_recorded(addon):
        keep: tuple[Effect, ...] = (succession.KeepRecord(addon, cluster), remove)
        return Decision(keep, message="record of the ClusterAddon kept, finalizer removed")
    # A killed sync may have stored either Secret before the status reports it.
    delete: tuple[Effect, ...] = (DeleteSecret(addon, "manifests"), DeleteSecret(addon, "generated"))
    if dig(addon, ("metadata", "annotations", SUCCESSOR_ANNOTATION)):
        delete += (DeleteSecret(addon, "record"),)
    return Decision((*delete, remove), message="finalizer removed")


def take_over(addon: Object, cluster: Object, record: Object) -> Decision:
    """Decides to continue with the record of an earlier addon of this Cluster; the status comes last and ends this."""
    parts = {name: record[name] for name in ("metadata", "spec") if isinstance(record.get(name), dict)}
    adopt = Patch(CLUSTER_ADDON, addon, parts)
    status = write_ahead(CLUSTER_ADDON, addon, record.get("status") or {})
    effects: tuple[Effect, ...] = (succession.TakeSecrets(addon, cluster), adopt, *status)
    return Decision(
        effects, proceed=True, message="the ClusterAddon continues with the record of the deleted ClusterAddon"
    )


def paused(builder: AddonStatusBuilder) -> Decision:
    """Decides to change nothing but the status, while the Cluster is paused."""
    builder.set_false("ClusterReady", PAUSED, "The Cluster is paused, so its addons do not change", event_type="Normal")
    ready = dig(builder.obj, "status.ready") is True and not builder.is_new_target
    return builder.decision(ready=ready, message="paused")


def moved(addon: Object, cluster: Object, applied: manifest_history.StoredManifest | None, now: datetime) -> Decision:
    """Decides to keep an addon that clusterctl has moved with its Cluster, which has another uid there.

    clusterctl moves no status. First the inventory is written again, by the stored manifest that was `applied`.
    Without a stored manifest, a Kubernetes event reports the consequences.
    """
    is_first = not dig(addon, "status.history")
    if applied is not None and applied.objects and is_first:
        entries = inventory.dump(inventory.entry_of(obj) for obj in applied.objects)
        history = [manifest_history.history_entry(applied.class_name, applied.version, "", now)]
        return Decision(status={"resources": entries, "history": history}, proceed=True)
    reference = {"spec": {"clusterRef": {"uid": cluster["metadata"]["uid"]}}}
    lost: tuple[KubernetesEvent, ...] = ()
    if applied is not None and applied.problem and is_first and dig(addon, "spec.clusterStack"):
        message = f"{applied.problem}: objects that the next release does not contain will stay in the workload cluster"
        lost = (KubernetesEvent("InventoryLost", message, "Warning"),)
    adopt = Patch(CLUSTER_ADDON, addon, reference)
    return Decision(
        (adopt,), kubernetes_events=lost, proceed=True, message="the ClusterAddon gets the uid of the moved Cluster"
    )


def relabel(addon: Object, cluster: Object) -> Decision:
    """Decides to copy the label of the watch filter, which decides about the addon once its Cluster is gone."""
    labels = {watch_filter.LABEL: watch_filter.value_of(cluster)}
    return Decision((Patch(CLUSTER_ADDON, addon, {"metadata": {"labels": labels}}),), proceed=True, message="labelled")


def misconfigured(builder: AddonStatusBuilder, error: PolicyError) -> Decision:
    """Decides to wait until a user corrects an invalid annotation."""
    builder.set_false("ClusterAddonConfigValidated", "InvalidAnnotation", str(error), "Error", event_type="Warning")
    return builder.wait(BROKEN_RETRY, str(error))


def no_cluster_stack(builder: AddonStatusBuilder, cluster: Object) -> Decision:
    """Decides to leave the addons unchanged, because the Cluster's class does not belong to a cluster stack."""
    name = cluster_api.class_name(cluster)
    what = f"class {name} does not belong to a cluster stack" if name else "the Cluster has no class"
    left = "the addon objects in the workload cluster stay unchanged"
    message = f"{what}, so {left}; a class of a cluster stack has a name like local-demo-1-36-v1"
    builder.set_false(DOWNLOADED, "NoClusterStack", message, "Warning", event_type="Warning")
    return builder.decision(ready=False)


def connection_failed(
    builder: AddonStatusBuilder, problem: ConnectionFailed, cluster: Object | None = None
) -> Decision:
    """Decides to wait until the workload cluster is reachable; reports a Cluster that no program reconciles."""
    waits_in_vain = cluster is not None and is_unreconciled(cluster, builder.now)
    message = f"{problem.message}. {UNRECONCILED}" if waits_in_vain else problem.message
    # A new cluster is unreachable at first, which is no reason for a Kubernetes event.
    adds_event = builder.is_true("ClusterReady") or problem.severity == "Error"
    builder.set_false(
        "ClusterReady",
        "ControlPlaneNotReady",
        message,
        problem.severity,
        event_type="Warning" if adds_event else "",
    )
    decision = builder.wait(CLUSTER_RETRY, message)
    if cluster is None or not waits_in_vain:
        return decision
    return replace(decision, effects=(*decision.effects, *report_unreconciled(cluster, builder.now)))


def not_shared(builder: AddonStatusBuilder, obstacle: ReleaseNotShared) -> Decision:
    """Decides to wait until the release may be used in the namespace of the addon."""
    builder.set_false(DOWNLOADED, "ReleaseNotShared", obstacle.message, "Error", event_type="Warning")
    return builder.wait(BROKEN_RETRY, obstacle.message)


def not_stored(builder: AddonStatusBuilder, cluster: Object, missing: MissingAssets) -> Decision:
    """Decides to wait for the release, and requests its download."""
    if missing.failure:
        builder.set_false(DOWNLOADED, missing.reason, missing.message, "Error", event_type="Warning")
    else:
        builder.set_false(DOWNLOADED, missing.reason, missing.message)
    namespace = cluster_api.class_namespace(cluster)
    fetch_request = missing.fetch_request(
        builder.obj, namespace, builder.now, source="/addon_apply", every=ASSETS_RETRY
    )
    return builder.wait(ASSETS_RETRY, missing.message, reply=fetch_request)
