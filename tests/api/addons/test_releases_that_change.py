"""A release that changes between its fetch and its rollout: what is applied is one version of it as a whole, never
parts of two, and whatever is damaged heals by itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import pytest

from events.delivery import InProcessDelivery
from functions import catalog
from shared.api.resources import CLUSTER, CONFIG_MAP
from shared.clients import Clients
from shared.kube import Client
from shared.releases.sources.urls import from_env
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore
from tests.support.api_proxy import Fault, Proxy, Request, cut_before, object_store_server
from tests.support.releases import STACK, write_release
from tests.support.swept_addons import SweptAddons, owned

COUNT = 6
V1, V2 = f"{STACK}-v1", f"{STACK}-v2"


@pytest.fixture
def storage(object_store: ObjectStore, object_store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The object store as the functions see it; the fixture `object_store` goes straight there."""
    with Proxy(object_store_server(object_store_url)) as proxy:
        monkeypatch.setenv("S3_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def addons(
    management: Client,
    clients: Clients,
    namespace: str,
    storage: Proxy,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> SweptAddons:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    return SweptAddons(management, namespace, proxy.kubeconfig, InProcessDelivery(catalog.handler, clients))


def write(root: Path, version: str, namespace: str, mark: str) -> None:
    """A release whose objects say which chart and which values they were made of."""
    template = (
        "apiVersion: v1\nkind: ConfigMap\n"
        'metadata: {name: m%d, namespace: "%s"}\n'
        'data: {chart: "%s", values: "{{ .Values.mark }}"}\n'
    )
    templates = {f"m{number}.yaml": template % (number, namespace, mark) for number in range(COUNT)}
    write_release(root, version, templates=templates, values=f'mark: "{mark}"\n')


def applied(addons: SweptAddons) -> set[tuple[str, str]]:
    """The (chart, values) that the objects in the cluster were made of."""
    maps = owned(addons.client, CONFIG_MAP, addons.namespace)
    assert len(maps) in (0, COUNT)
    return {(obj["data"]["chart"], obj["data"]["values"]) for obj in maps.values()}


# -- what happens to it ----------------------------------------------------------------------------------------

Mishap = Callable[[ObjectStore], None]


def manifest_key(tag: str) -> str:
    return f"releases/{tag}.json"


def each_blob(store: ObjectStore, change: Callable[[str], object]) -> None:
    for key in store.list("blobs/"):
        change(key)


def blob_of(store: ObjectStore, word: bytes) -> str:
    [key] = [key for key in store.list("blobs/") if word in (store.get(key) or b"")]
    return key


def wipe(store: ObjectStore) -> None:
    for key in store.list():
        store.delete(key)


MISHAPS: dict[str, Mishap] = {
    "its files are other bytes": lambda store: each_blob(store, lambda key: store.put(key, b"x", if_absent=False)),
    "its files are empty": lambda store: each_blob(store, lambda key: store.put(key, b"", if_absent=False)),
    "its files are gone": lambda store: each_blob(store, store.delete),
    "its values are gone": lambda store: store.delete(blob_of(store, b'mark: "2"')),
    "its values are another's": lambda store: put(store, blob_of(store, b'mark: "2"'), b'mark: "1"\n'),
    "its manifest is gone": lambda store: store.delete(manifest_key(V2)),
    "its manifest is no JSON": lambda store: put(store, manifest_key(V2), b'{"files": {"metadata.ya'),
    "its manifest is another kind of JSON": lambda store: put(store, manifest_key(V2), b"[]"),
    "its manifest is another's": lambda store: put(store, manifest_key(V2), store.get(manifest_key(V1)) or b""),
    "all is gone": wipe,
}

MOMENTS: dict[str, Callable[[Request], bool]] = {
    "before its manifest is read": lambda request: manifest_key(V2) in request.path,
    "before its files are read": lambda request: "/blobs/" in request.path and request.method == "GET",
}


def put(store: ObjectStore, key: str, data: bytes) -> None:
    store.put(key, data, if_absent=False)


class Once:
    """Lets something happen in the store just before the first request that matches."""

    def __init__(self, when: Callable[[Request], bool], happens: Callable[[], None]) -> None:
        self._when, self._happens = when, happens
        self._lock = Lock()
        self.happened = False

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            if not self.happened and self._when(request):
                self.happened = True
                self._happens()
        return None


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mishap", MISHAPS)
def test_storage_mishap_during_a_rollout_never_mixes_two_contents(
    addons: SweptAddons, storage: Proxy, object_store: ObjectStore, tmp_path: Path, mishap: str, moment: str
) -> None:
    for version in ("1", "2"):
        write(tmp_path, f"v{version}", addons.namespace, version)
    addons.apply_class(V1)
    addons.until(lambda: addons.ready(V1), "v1")
    ReleaseStore(object_store).save(V2, from_env())
    once = Once(MOMENTS[moment], lambda: MISHAPS[mishap](object_store))
    storage.fault = once
    addons.apply_class(V2)
    for _ in range(3):
        addons.deliver_change(CLUSTER, addons.cluster_key)
        assert applied(addons) in ({("1", "1")}, {("2", "2")})
    assert once.happened
    addons.until(lambda: addons.ready(V2), "v2")
    assert applied(addons) == {("2", "2")}


def test_source_that_changes_a_tag_does_not_change_the_stored_release(
    addons: SweptAddons, object_store: ObjectStore, tmp_path: Path
) -> None:
    """What was published first is what the tag means, for as long as it is stored."""
    write(tmp_path, "v1", addons.namespace, "first")
    ReleaseStore(object_store).save(V1, from_env())
    write(tmp_path, "v1", addons.namespace, "second")
    addons.apply_class(V1)
    addons.until(lambda: addons.ready(V1), "v1")
    assert applied(addons) == {("first", "first")}


def test_other_content_under_the_tag_during_a_rollout_is_not_applied(
    addons: SweptAddons, proxy: Proxy, object_store: ObjectStore, tmp_path: Path
) -> None:
    """Half of it is applied, then it is lost and fetched again as something else: then all of it is that."""
    write(tmp_path, "v1", addons.namespace, "first")
    proxy.fail(cut_before, lambda request: request.writes and request.path.endswith(("/m1", "/m4")))
    addons.apply_class(V1)
    addons.deliver_change(CLUSTER, addons.cluster_key)
    assert 0 < len(owned(addons.client, CONFIG_MAP, addons.namespace)) < COUNT
    wipe(object_store)
    write(tmp_path, "v1", addons.namespace, "second")
    proxy.heal()
    addons.until(lambda: addons.ready(V1), "v1")
    assert applied(addons) == {("second", "second")}


@pytest.mark.parametrize("lost", ["its manifest is gone", "its files are gone", "its files are other bytes"])
def test_republished_tag_is_reported_and_not_applied(
    addons: SweptAddons, object_store: ObjectStore, tmp_path: Path, lost: str
) -> None:
    """The tag is fetched again with other content, and refused until it has its first content again."""
    for version in ("v1", "v2"):
        write(tmp_path, version, addons.namespace, version)
    shutil.copytree(tmp_path / V2, tmp_path / "original")
    ReleaseStore(object_store).save(V2, from_env())
    addons.apply_class(V1)
    addons.until(lambda: addons.ready(V1), "v1")
    MISHAPS[lost](object_store)
    write(tmp_path, "v2", addons.namespace, "forged")
    addons.apply_class(V2)
    reason = "IssueWithReleaseAssets"
    addons.until(lambda: addons.condition("ClusterStackReleaseDownloaded").get("reason") == reason, reason)
    message = addons.condition("Ready")["message"]
    assert f"release {V2} was published again with other content" in message
    assert f"delete pins/{V2}.json" in message
    assert applied(addons) == {("v1", "v1")}
    shutil.copytree(tmp_path / "original", tmp_path / V2, dirs_exist_ok=True)
    patch = {"at": "2026-01-01T00:00:00+00:00", "message": "long ago"}
    object_store.put(f"failures/{V2}.json", json.dumps(patch).encode(), if_absent=False)
    addons.until(lambda: addons.ready(V2), "v2")
    assert applied(addons) == {("v2", "v2")}


def test_republished_tag_is_accepted_after_its_pin_is_deleted(
    addons: SweptAddons, object_store: ObjectStore, tmp_path: Path
) -> None:
    """An upgrade needs nothing of the release that it leaves, wherever that was."""
    write(tmp_path, "v1", addons.namespace, "1")
    addons.apply_class(V1)
    addons.until(lambda: addons.ready(V1), "v1")
    wipe(object_store)
    (tmp_path / V1).rename(tmp_path / "elsewhere")
    write(tmp_path, "v2", addons.namespace, "2")
    addons.apply_class(V2)
    addons.until(lambda: addons.ready(V2), "v2")
    assert applied(addons) == {("2", "2")}
