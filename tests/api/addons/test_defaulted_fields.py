"""Fields that an API server has set, and that exclude what a new release sets, are removed by the apply."""

from __future__ import annotations

import pytest

from shared.addons.owner import OWNER
from shared.api.resources import DAEMON_SET, DEPLOYMENT
from shared.applier import inventory
from shared.applier.desired import desired
from shared.applier.policy import Policy
from shared.applier.preview import preview
from shared.clients import ClusterClients
from shared.kube import Key, Object, Resource
from tests.support.controllers import STATEFUL_SET, workload
from tests.support.releases import write_release
from tests.support.world import World

SERVICE = Resource("", "v1", "Service", "services")


def service(**spec: object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], **spec}}


def of_kind(resource: Resource, **spec: object) -> Object:
    extra = {"serviceName": "x"} if resource.kind == "StatefulSet" else {}
    obj = workload(resource, "x", "", **extra)
    obj["spec"] |= spec
    return obj


def with_volume(**source: object) -> Object:
    obj = of_kind(DEPLOYMENT)
    obj["spec"]["template"]["spec"]["volumes"] = [{"name": "v", **source}]
    return obj


def with_probe(**probe: object) -> Object:
    obj = of_kind(DEPLOYMENT)
    obj["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe
    return obj


RECREATE = {"type": "Recreate"}
KINDS = {("apps/v1", "Deployment"): DEPLOYMENT}


@pytest.mark.parametrize(
    ("resource", "before", "after", "path"),
    [
        pytest.param(
            DEPLOYMENT, of_kind(DEPLOYMENT), of_kind(DEPLOYMENT, strategy=RECREATE), "spec.strategy", id="Recreate"
        ),
        pytest.param(
            DEPLOYMENT,
            of_kind(DEPLOYMENT, strategy={"type": "RollingUpdate"}),
            of_kind(DEPLOYMENT, strategy=RECREATE),
            "spec.strategy",
            id="Recreate after a type",
        ),
        pytest.param(
            DEPLOYMENT,
            of_kind(DEPLOYMENT, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}),
            of_kind(DEPLOYMENT, strategy=RECREATE),
            "spec.strategy",
            id="Recreate after a part",
        ),
        pytest.param(
            STATEFUL_SET,
            of_kind(STATEFUL_SET),
            of_kind(STATEFUL_SET, updateStrategy={"type": "OnDelete"}),
            "spec.updateStrategy",
            id="StatefulSet",
        ),
        pytest.param(
            DAEMON_SET,
            of_kind(DAEMON_SET),
            of_kind(DAEMON_SET, updateStrategy={"type": "OnDelete"}),
            "spec.updateStrategy.type",
            id="DaemonSet",
        ),
        pytest.param(
            SERVICE,
            service(sessionAffinity="ClientIP"),
            service(sessionAffinity="None"),
            "spec.sessionAffinity",
            id="session affinity",
        ),
        pytest.param(SERVICE, service(type="LoadBalancer"), service(type="ClusterIP"), "spec.type", id="balancer"),
        pytest.param(
            SERVICE,
            service(),
            service(type="ExternalName", externalName="example.com"),
            "spec.externalName",
            id="external",
        ),
        pytest.param(
            DEPLOYMENT,
            with_volume(),
            with_volume(configMap={"name": "c"}),
            "spec.template.spec.volumes.0.configMap.name",
            id="volume",
        ),
        pytest.param(
            DEPLOYMENT,
            with_probe(httpGet={"port": 80}),
            with_probe(tcpSocket={"port": 80}),
            "spec.template.spec.containers.0.livenessProbe.tcpSocket.port",
            id="probe",
        ),
    ],
)
def test_field_that_excludes_defaulted_ones_is_applied(
    world: World, resource: Resource, before: Object, after: Object, path: str
) -> None:
    for obj in (before, after):
        obj["metadata"]["namespace"] = world.namespace
    world.cluster(write_release(world.releases, "v1", [before]), policy={"wait": "false"})
    world.secret()
    assert world.settle().retry_after is None
    world.cluster(write_release(world.releases, "v2", [after]), policy={"wait": "false"})
    answer = world.settle()
    assert answer.retry_after is None, world.condition("HelmChartApplied")["message"]
    live = world.client.get(resource, Key(world.namespace, "x"))

    def at(obj: Object) -> object:
        value: object = obj
        for step in path.split("."):
            value = value[int(step) if step.isdecimal() else step]  # type: ignore[index]
        return value

    assert at(live) == at(after)


def test_field_of_another_manager_is_not_removed(world: World) -> None:
    obj = of_kind(DEPLOYMENT)
    obj["metadata"]["namespace"] = world.namespace
    world.cluster(write_release(world.releases, "v1", [obj]), policy={"wait": "false"})
    world.secret()
    world.settle()
    theirs = {"strategy": {"rollingUpdate": {"maxSurge": 3}}}
    world.client.apply(DEPLOYMENT, {**obj, "spec": theirs}, manager="somebody", force=True)
    world.cluster(write_release(world.releases, "v2", [{**obj, "spec": obj["spec"] | {"strategy": RECREATE}}]))
    assert world.settle().retry_after == 20.0
    assert "spec.strategy.rollingUpdate: Forbidden" in world.condition("HelmChartApplied")["message"]
    live = world.client.get(DEPLOYMENT, Key(world.namespace, "x"))
    assert live["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 3


def test_preview_shows_an_update_that_a_dry_run_rejects(world: World) -> None:
    obj = of_kind(DEPLOYMENT)
    obj["metadata"]["namespace"] = world.namespace
    world.cluster(write_release(world.releases, "v1", [obj]), policy={"wait": "false"})
    world.secret()
    world.settle()
    entries = inventory.load(world.addon()["status"]["resources"])
    wanted = desired([{**obj, "spec": obj["spec"] | {"strategy": RECREATE}}], KINDS, OWNER, default_namespace="default")
    plan = inventory.plan(wanted, entries, resumed=False)
    [change] = preview(ClusterClients(world.client), plan, KINDS, Policy(OWNER)).values()
    assert (change.action, [field.path for field in change.fields]) == ("update", ["spec.strategy.type"])
    assert world.client.get(DEPLOYMENT, Key(world.namespace, "x"))["spec"]["strategy"]["type"] == "RollingUpdate"
