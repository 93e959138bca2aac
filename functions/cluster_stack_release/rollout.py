"""The class chart as a plan of objects, and what is written before it is carried out."""

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

from .conditions import APPLIED, PARTIAL_RETRY, broken, finalizer
from .observe import Assets, Management, Observed

POLICY = Policy(wait=False)
"""What a class consists of is only used later: there is nothing to wait for."""


@dataclass(frozen=True)
class Rediscover:
    """Has the kinds asked for again: one that was unknown may have come."""

    def execute(self, clients: Clients) -> None:
        clients.discovery.invalidate()


def roll_out(
    builder: V1Beta1StatusBuilder, observed: Observed, assets: Assets, name: ReleaseName, management: Management
) -> Decision:
    facts: Object = {"kubernetesVersion": assets.kubernetes}
    try:
        objects = _render(assets, name, management, key_of(builder.obj).namespace)
    except charts.ChartError as error:
        return broken(builder, APPLIED, "FailedToApplyObjects", str(error), facts=facts)
    except UnknownKinds as error:
        decision = broken(
            builder, APPLIED, "FailedToApplyObjects", str(error), requeue_after=PARTIAL_RETRY, facts=facts
        )
        return replace(decision, effects=(*decision.effects, Rediscover()))
    known = belongings(builder.obj)
    plan = inventory.plan(objects, known, resumed=False)
    plan = replace(plan, prune=tuple(entry for entry in plan.prune if entry.identity not in observed.claimed))
    effects: list[Effect] = list(finalizer(builder))
    if {step.entry.identity for step in plan.steps} - {entry.identity for entry in known}:
        builder.set_false(APPLIED, "ObjectsApplyingOngoing", f"applying {len(objects)} objects of {name}", "Warning")
        status = builder.status(resources=inventory.dump(inventory.intent(plan)), **facts)
        effects += write_ahead(CLUSTER_STACK_RELEASE, builder.obj, status)
    resources = {**management.reached.served, **kinds_defined_by(objects)}
    effects.append(Rollout(management.reached.cluster, plan, resources, POLICY))
    return Decision(tuple(effects))


def belongings(release: Object) -> list[InventoryEntry]:
    """What the release may have brought. Nothing outside its namespace counts, whoever put it into the status."""
    namespace = key_of(release).namespace
    entries = inventory.load(dig(release, "status.resources"))
    return [entry for entry in entries if entry.namespace == namespace]


def _render(assets: Assets, name: ReleaseName, management: Management, namespace: str) -> list[Object]:
    """The class chart's objects. Raises ChartError, UnknownKinds."""
    served = management.reached.served
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
        # A release is not to reach farther than those who may ask for it.
        if (elsewhere := dig(obj, "metadata.namespace", "")) != namespace:
            where = f"is meant for {elsewhere}" if elsewhere else "is cluster-scoped"
            raise charts.ChartError(
                f"{assets.file}: {identity(obj)} {where}, only objects in {namespace} are allowed; "
                "take it out of the class chart, and apply it by other means"
            )
    return objects
