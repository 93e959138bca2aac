"""Renders the class chart and plans its rollout; the inventory is written before the rollout starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared import charts
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.desired import MANAGEMENT, UnknownKinds, desired, kinds_defined_by
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import Policy
from shared.applier.rollout import Rollout
from shared.clients import Clients
from shared.effects import Effect, write_ahead
from shared.kube import Object, dig, key_of
from shared.manifests import identity
from shared.releases.naming import ReleaseName
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

from .conditions import APPLIED, PARTIAL_RETRY, decide_failure, finalizer_effects
from .observe import Assets, Management, Observed

POLICY = Policy(wait=False)
"""The rollout does not wait for readiness: only later Clusters use the objects of a class."""


@dataclass(frozen=True)
class InvalidateDiscovery:
    """Effect: invalidates the cached discovery, since an unknown kind may be served by now."""

    def execute(self, clients: Clients) -> None:
        clients.discovery.invalidate()


def roll_out(
    builder: V1Beta1StatusBuilder, observed: Observed, assets: Assets, name: ReleaseName, management: Management
) -> Decision:
    """Decides to apply the chart's objects and to prune those that it no longer contains."""
    fields: Object = {"kubernetesVersion": assets.kubernetes}
    try:
        objects = _render(assets, name, management, key_of(builder.obj).namespace)
    except charts.ChartError as error:
        return decide_failure(builder, APPLIED, "FailedToApplyObjects", str(error), fields=fields)
    except UnknownKinds as error:
        decision = decide_failure(
            builder, APPLIED, "FailedToApplyObjects", str(error), requeue_after=PARTIAL_RETRY, fields=fields
        )
        return replace(decision, effects=(*decision.effects, InvalidateDiscovery()))
    entries = release_inventory(builder.obj)
    plan = inventory.plan(objects, entries, resumed=False)
    plan = replace(plan, prune=tuple(entry for entry in plan.prune if entry.identity not in observed.claimed))
    effects: list[Effect] = list(finalizer_effects(builder))
    if {step.entry.identity for step in plan.steps} - {entry.identity for entry in entries}:
        builder.set_false(APPLIED, "ObjectsApplyingOngoing", f"applying {len(objects)} objects of {name}", "Warning")
        status = builder.status(resources=inventory.dump(inventory.intent(plan)), **fields)
        effects += write_ahead(CLUSTER_STACK_RELEASE, builder.obj, status)
    resources = {**management.connection.served, **kinds_defined_by(objects)}
    effects.append(Rollout(management.connection.cluster, plan, resources, POLICY))
    return Decision(tuple(effects))


def release_inventory(release: Object) -> list[InventoryEntry]:
    """Returns the release's inventory without entries of other namespaces, which only a user could have added."""
    namespace = key_of(release).namespace
    entries = inventory.load(dig(release, "status.resources"))
    return [entry for entry in entries if entry.namespace == namespace]


def _render(assets: Assets, name: ReleaseName, management: Management, namespace: str) -> list[Object]:
    """Renders the class chart. Raises `ChartError` or `UnknownKinds`."""
    served = management.connection.served
    manifests = charts.render(
        assets.chart,
        {},
        name=assets.file,
        release_name=name.stack,
        namespace=namespace,
        kube_version=management.version,
        api_versions=sorted({text for version, kind in served for text in (version, f"{version}/{kind}")}),
    )
    parsed = charts.parse(manifests, default_namespace=namespace)
    objects = desired(parsed, served, default_namespace=namespace, where=MANAGEMENT)
    if not objects:
        raise charts.ChartError(f"{assets.file}: the chart renders no objects, a ClusterClass is needed")
    for obj in objects:
        # Whoever may create a release must not gain access to other namespaces through it.
        if (elsewhere := dig(obj, "metadata.namespace", "")) != namespace:
            where = f"is meant for {elsewhere}" if elsewhere else "is cluster-scoped"
            raise charts.ChartError(
                f"{assets.file}: {identity(obj)} {where}, only objects in {namespace} are allowed; "
                "take it out of the class chart, and apply it by other means"
            )
    return objects
