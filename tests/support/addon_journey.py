"""The life of a Cluster's addon: created with a first release, upgraded to a second one, deleted."""

from __future__ import annotations

import base64
import uuid

from shared.api.names import OWNED_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, NAMESPACE, SECRET, SERVICE
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource
from shared.kube.crds import CRD
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint
from tests.support.releases import STACK, config_map, write_release, write_stages
from tests.support.swept_addons import FUNCTIONS, SweptAddons, owned

STAGES = """
  AfterControlPlaneInitialized: &stages [{name: base}, {name: rest}]
  BeforeClusterUpgrade: *stages
"""


class AddonJourneys:
    """Journeys of one addon after the other, each in a namespace of its own.

    `client` goes straight to the API server. With `in_stages` the releases have two stages with a chart each, otherwise
    one umbrella chart.
    """

    def __init__(self, functions: KillableFunctions, client: Client, *, in_stages: bool = False) -> None:
        self._functions, self._client, self._in_stages = functions, client, in_stages
        self._version = 0

    def take(self, point: KillPoint | None = None) -> list[Request]:
        """Takes a journey from nothing to the first release, to the second, and back to nothing.

        The functions are killed at `point`. Returns the writes of the journey. Raises AssertionError where the end is
        not as it would be without the kill.
        """
        functions, client = self._functions, self._client
        functions.kill_at(point)
        namespace = f"kill-{uuid.uuid4().hex[:8]}"
        client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        addons = SweptAddons(client, namespace, functions.kubeconfig, functions.deliver)
        wanted: list[Object] = []

        def release(objects: list[Object]) -> None:
            wanted[:] = objects
            addons.apply_class(self._release(objects))

        def change() -> None:
            if point is not None and point.meanwhile and wanted:
                release(second(namespace) if wanted == first(namespace) else first(namespace))

        functions.while_down = change
        for objects in (first(namespace), second(namespace)):
            release(objects)
            addons.until(lambda: addons.ready(self._newest), "Ready")
            check(addons, wanted)
        wanted.clear()
        cluster = client.get(CLUSTER, addons.cluster_key)
        addons.remove()
        addons.until(addons.gone, "the end of the addon")
        for name in FUNCTIONS:  # events that arrive after the deletion
            addons.send(name, change_event(cluster, "update", source="/test"))
        assert list(client.list(CLUSTER_ADDON, namespace)) == []
        assert orphans(client, namespace) == []
        client.delete(CRD, Key("", f"widgets.{namespace}.example.com"))
        return functions.end()

    @property
    def _newest(self) -> str:
        return f"{STACK}-v{self._version}"

    def _release(self, objects: list[Object]) -> str:
        self._version += 1
        releases = self._functions.releases
        if not self._in_stages:
            return write_release(releases, f"v{self._version}", objects)
        crds = [obj for obj in objects if obj["kind"] == CRD.kind]
        others = [obj for obj in objects if obj["kind"] != CRD.kind]
        charts = {"base": [*crds, *others[::2]], "rest": others[1::2]}
        return write_stages(releases, f"v{self._version}", STAGES, charts)


# -- what is applied -------------------------------------------------------------------------------------------


def widgets(namespace: str) -> Resource:
    return Resource(f"{namespace}.example.com", "v1", "Widget", "widgets")


def first(namespace: str) -> list[Object]:
    maps = [config_map(name, namespace=namespace) for name in ("kept", "changed", "dropped")]
    return [*maps, *common(namespace, "1"), widget(namespace, "old"), service(namespace, "kept")]


def second(namespace: str) -> list[Object]:
    """Objects that stay, change, come and go; the Service goes, and a ConfigMap of the same name stays."""
    maps = [config_map("kept", namespace=namespace), *(config_map(n, "2", namespace) for n in ("changed", "added"))]
    return [*maps, *common(namespace, "2"), widget(namespace, "new")]


def common(namespace: str, value: str) -> list[Object]:
    group = widgets(namespace).group
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-own"}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "secret", "namespace": f"{namespace}-own"},
            "stringData": {"k": value},
        },
        {
            "apiVersion": CRD.api_version,
            "kind": CRD.kind,
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    ]


def widget(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": widgets(namespace).api_version, "kind": "Widget", "metadata": metadata}


def service(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def check(addons: SweptAddons, objects: list[Object]) -> None:
    """Asserts that the labelled objects are those of the release, unchanged, and that the inventory lists just them."""
    client, namespace = addons.client, addons.namespace
    live = {
        (resource.kind, name): obj
        for resource in (CONFIG_MAP, SECRET, SERVICE, NAMESPACE, CRD, widgets(namespace))
        for where in ([namespace, f"{namespace}-own"] if resource.namespaced else [""])
        for name, obj in owned(client, resource, where).items()
        if namespace in (obj["metadata"].get("namespace") or name).replace("-own", "").split(".")
    }
    wanted = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert set(live) == set(wanted)
    for who, obj in wanted.items():
        assert live[who].get("data") == obj.get("data") or "stringData" in obj
    assert live["Secret", "secret"]["data"] == {
        "k": base64.b64encode(wanted["Secret", "secret"]["stringData"]["k"].encode()).decode()
    }
    inventory = addons.inventory()
    assert {who: entry.get("uid") for who, entry in inventory.items()} == {
        who: obj["metadata"]["uid"] for who, obj in live.items()
    }
    assert {entry["status"] for entry in inventory.values()} == {"synced"}


def orphans(client: Client, namespace: str) -> list[str]:
    """Returns our Secrets in the management cluster that have no owner, so that garbage collection would leave them."""
    secrets = [
        obj for obj in client.list(SECRET, namespace) if OWNED_LABEL not in (obj["metadata"].get("labels") or {})
    ]
    names = [obj["metadata"]["name"] for obj in secrets if not obj["metadata"].get("ownerReferences")]
    return [name for name in names if name != "demo-kubeconfig"]
