"""ClusterClasses on docker's in-memory backend that differ from each other, for previews of their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from shared.api.resources import CLUSTER_CLASS
from shared.kube import Key, Object
from tests.support.real_providers import in_memory_cluster

_KUBELET = "/spec/template/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs"


def classes(namespace: str) -> list[Object]:
    """Returns the class v1 and changed ones, each with its templates."""
    templates, _ = in_memory_cluster(Key(namespace, "any"), "v1.35.0")
    templates = _with_pool(templates)

    def of(name: str, edit: Callable[[dict[str, Object]], None] = lambda _by_kind: None) -> list[Object]:
        objects = deepcopy(templates)
        for obj in objects:
            obj["metadata"]["name"] = _rename(obj["metadata"]["name"], name)
            for reference in _references(obj["spec"]):
                reference["name"] = _rename(reference["name"], name)
        by_kind = {obj["kind"]: obj for obj in objects}
        value = {
            "op": "add",
            "path": f"{_KUBELET}/-",
            "valueFrom": {"template": "{name: node-labels, value: zone={{ .zone }}}"},
        }
        selector = {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfigTemplate",
            "matchResources": {"machineDeploymentClass": {"names": ["default-worker"]}},
        }
        by_kind[CLUSTER_CLASS.kind]["spec"] |= {
            "variables": [
                {"name": "zone", "required": False, "schema": {"openAPIV3Schema": {"type": "string", "default": "a"}}}
            ],
            "patches": [{"name": "zones", "definitions": [{"selector": selector, "jsonPatches": [value]}]}],
        }
        edit(by_kind)
        return objects

    return [
        *of("v1"),
        *of("v2", _with_more_arguments),
        *of("renamed"),
        *of("smaller", _without_field),
        *of("broken", _with_broken_patch),
        *of("external-etcd", _with_external_etcd),
    ]


def _with_pool(templates: list[Object]) -> list[Object]:
    """Returns the templates with a class of MachinePools; without Docker their machines do not start."""
    [cluster_class] = [obj for obj in templates if obj["kind"] == CLUSTER_CLASS.kind]
    workers = cluster_class["spec"]["workers"]
    [deployment] = workers["machineDeployments"]
    template = deepcopy(next(obj for obj in templates if obj["kind"] == "DevMachineTemplate"))
    template |= {"kind": "DevMachinePoolTemplate", "spec": {"template": {"spec": {"backend": {"docker": {}}}}}}
    template["metadata"]["name"] = "in-memory-pool"
    reference = {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": "in-memory-pool"}
    pool = {**deepcopy(deployment), "infrastructure": {"templateRef": reference}}
    workers["machinePools"] = [{name: pool[name] for name in ("class", "bootstrap", "infrastructure")}]
    return [template, *templates]


def _rename(name: str, of: str) -> str:
    return of if name == "in-memory" else name.replace("in-memory", of)


def _references(spec: Any) -> Iterator[Object]:
    if isinstance(spec, list):
        for each in spec:
            yield from _references(each)
    elif isinstance(spec, dict):
        if "templateRef" in spec:
            yield spec["templateRef"]
        for each in spec.values():
            yield from _references(each)


def _kubeadm(template: Object) -> Object:
    found: Object = template["spec"]["template"]["spec"]["kubeadmConfigSpec"]
    return found


def _with_more_arguments(by_kind: dict[str, Object]) -> None:
    _kubeadm(by_kind["KubeadmControlPlaneTemplate"])["clusterConfiguration"]["apiServer"]["certSANs"].append(
        "more.test"
    )
    spec = by_kind["KubeadmConfigTemplate"]["spec"]["template"]["spec"]
    spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"].append({"name": "max-pods", "value": "50"})


def _without_field(by_kind: dict[str, Object]) -> None:
    """Removes a field, which only the managed fields of the topology controller show."""
    del by_kind["DevMachineTemplate"]["spec"]["template"]["spec"]["backend"]["inMemory"]["etcd"]


def _with_broken_patch(by_kind: dict[str, Object]) -> None:
    [patch] = by_kind[CLUSTER_CLASS.kind]["spec"]["patches"]
    patch["definitions"][0]["jsonPatches"][0]["path"] = "/spec/template/spec/missing/field"


def _with_external_etcd(by_kind: dict[str, Object]) -> None:
    files = {"caFile": "/ca", "certFile": "/cert", "keyFile": "/key"}
    external = {"external": {"endpoints": ["https://127.0.0.1:2379"], **files}}
    _kubeadm(by_kind["KubeadmControlPlaneTemplate"])["clusterConfiguration"]["etcd"] = external
