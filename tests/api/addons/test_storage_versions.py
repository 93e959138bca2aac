"""Custom resources are migrated to a remaining version before an upgrade removes their storage version."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shared.clients import Clients
from shared.kube import ApiError, Client, Conflict, Key, Object, Resource, connect, dig
from shared.kube.crds import CRD, await_established
from shared.providers.storage_migration import MigrateStorage, NoCommonVersion, removed_versions
from tests.support.api_proxy import Proxy, answering
from tests.support.until import until

GROUP = f"t{uuid.uuid4().hex[:8]}.example.com"
NAME = f"widgets.{GROUP}"


def crd(*versions: str, storage: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [
                {"name": version, "served": True, "storage": version == storage, "schema": schema}
                for version in versions
            ],
        },
    }


def widget(version: str) -> Resource:
    return Resource(GROUP, version, "Widget", "widgets")


@pytest.fixture
def old(management: Client, namespace: str) -> Iterator[Object]:
    """A CRD with v1alpha1 and v1beta1, whose objects are stored in v1alpha1."""
    management.apply(CRD, crd("v1alpha1", "v1beta1", storage="v1alpha1"), manager="test")
    await_established(management, NAME)
    for number in range(3):
        metadata = {"name": f"w{number}", "namespace": namespace}
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Widget", "metadata": metadata, "size": number}
        management.create(widget("v1alpha1"), body)
    yield management.get(CRD, Key("", NAME))
    management.delete(CRD, Key("", NAME))
    until(lambda: management.find(CRD, Key("", NAME)) is None)  # or the next test cannot create anything


def test_objects_survive_removal_of_their_storage_version(
    management: Client, clients: Clients, namespace: str, old: Object
) -> None:
    wanted = crd("v1beta1", storage="v1beta1")
    assert removed_versions(old, wanted) == ["v1alpha1"]
    with pytest.raises(ApiError, match="storedVersions"):
        management.apply(CRD, wanted, manager="test")
    assert MigrateStorage(old, wanted).execute(clients) == 3
    live = management.get(CRD, Key("", NAME))
    assert dig(live, "status.storedVersions") == ["v1beta1"]
    assert removed_versions(live, wanted) == []
    management.apply(CRD, wanted, manager="test")
    found = list(management.list(widget("v1beta1"), namespace))
    assert {(obj["metadata"]["name"], obj["size"]) for obj in found} == {("w0", 0), ("w1", 1), ("w2", 2)}


def test_migration_is_idempotent(management: Client, clients: Clients, old: Object) -> None:
    wanted = crd("v1beta1", storage="v1beta1")
    MigrateStorage(old, wanted).execute(clients)
    live = management.get(CRD, Key("", NAME))
    assert MigrateStorage(live, wanted).execute(clients) == 3
    assert dig(management.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1beta1"]


def test_missing_common_version_is_refused_before_any_write(management: Client, clients: Clients, old: Object) -> None:
    with pytest.raises(NoCommonVersion, match=f"{NAME}.*v1alpha1, v1beta1"):
        MigrateStorage(old, crd("v2", storage="v2")).execute(clients)
    after = management.get(CRD, Key("", NAME))
    assert after["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def meanwhile(client: Client, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Calls `change` after the objects were listed."""
    original = client.list

    def listed(*arguments: Any, **options: Any) -> Iterator[Object]:
        found = list(original(*arguments, **options))
        change()
        return iter(found)

    monkeypatch.setattr(client, "list", listed)


def test_storage_version_used_again_meanwhile_is_a_conflict(
    management: Client, clients: Clients, namespace: str, old: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored_as_before_for_a_moment() -> None:
        for storage in ("v1alpha1", "v1beta1"):
            management.apply(CRD, crd("v1alpha1", "v1beta1", storage=storage), manager="other", force=True)

    meanwhile(clients.management, monkeypatch, stored_as_before_for_a_moment)
    with pytest.raises(Conflict):
        MigrateStorage(old, crd("v1beta1", storage="v1beta1")).execute(clients)
    assert dig(management.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1alpha1", "v1beta1"]


def test_concurrent_change_of_metadata_does_not_block_the_migration(
    management: Client, clients: Clients, old: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    meanwhile(clients.management, monkeypatch, lambda: management.patch(CRD, Key("", NAME), patch))
    MigrateStorage(old, crd("v1beta1", storage="v1beta1")).execute(clients)
    live = management.get(CRD, Key("", NAME))
    assert dig(live, "status.storedVersions") == ["v1beta1"]
    assert dig(live, ("metadata", "annotations", "example.com/seen")) == "yes"


@pytest.mark.parametrize("path", ["/widgets/", "/customresourcedefinitions/"])
def test_refused_write_does_not_count_as_migrated_though_it_is_a_conflict(
    proxy: Proxy, management: Client, old: Object, path: str
) -> None:
    """An admission webhook chooses the status of its denial."""
    denial = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "webhook says no"}
    proxy.fail(answering(409, denial), lambda request: request.method == "PATCH" and path in request.path)
    client = connect.workload(proxy.kubeconfig)
    live = crd("v1alpha1", "v1beta1", storage="v1beta1")
    management.apply(CRD, live, manager="test")
    with pytest.raises(ApiError, match="webhook says no"):
        MigrateStorage(management.get(CRD, Key("", NAME)), crd("v1beta1", storage="v1beta1")).execute(Clients(client))
    assert "v1alpha1" in dig(management.get(CRD, Key("", NAME)), "status.storedVersions")
