"""Source resolution and storage of releases, with a real API server, real web servers and a real object store."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from functions.release_assets import function as release_assets
from functions.release_assets.function import handle as fetch
from functions.release_prune.function import handle as prune
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, SECRET
from shared.clients import Clients
from shared.download import SourceError
from shared.download.access import HOSTS
from shared.event import PING, Event, own_event
from shared.kube import Client, Key, Object, Resource, Unavailable
from shared.kube.credentials import Credentials
from shared.records import Records
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import resolve_source, scope_of, source_of_stack
from shared.releases.store import ReleaseStore
from shared.runtime.keyed_lock import KeyedLock
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.accounts import as_function
from tests.support.http_server import HttpServer, Request, Response, files
from tests.support.releases import STACK, config_map, write_release
from tests.support.until import HANGS, until

V1, V2 = f"{STACK}-v901", f"{STACK}-v902"  # that no other test's objects name
NAME = ReleaseName.parse(V1)


@pytest.fixture
def content(tmp_path: Path) -> dict[str, bytes]:
    """Releases as a web server has them: path -> file."""
    for version in ("v901", "v902"):
        write_release(tmp_path / "web", version)
    paths = (path for path in (tmp_path / "web").rglob("*") if path.is_file())
    return {f"/{path.relative_to(tmp_path / 'web')}": path.read_bytes() for path in paths}


@pytest.fixture
def site(content: dict[str, bytes]) -> Iterator[HttpServer]:
    with HttpServer(files(content)) as site:
        yield site


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "operators").mkdir()
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path / "operators"))


@pytest.fixture(autouse=True)
def wanted_by_someone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fetched here no object names; that this takes one is seen in `test_release_demand`."""
    monkeypatch.setattr("functions.release_assets.function._is_referenced", lambda *_: True)
    monkeypatch.setattr("shared.runtime.clean_up.MIN_INTERVAL", 0.0)


@pytest.fixture
def store(object_store: ObjectStore) -> ReleaseStore:
    return ReleaseStore(object_store)


def _apply(client: Client, resource: Resource, namespace: str, name: str, **content: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    return client.apply(resource, body, manager="user")


@pytest.fixture
def stack(management: Client, namespace: str) -> Iterator[Any]:
    def make(*urls: str, name: str = "stack", secret: str = "", **spec: Any) -> Object:
        sources = [{"url": url, **({"secretRef": {"name": secret}} if secret else {})} for url in urls]
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True} | spec
        return _apply(management, CLUSTER_STACK, namespace, name, spec=spec | ({"sources": sources} if urls else {}))

    yield make
    for obj in list(management.list(CLUSTER_STACK, namespace)):
        management.delete(CLUSTER_STACK, Key(namespace, obj["metadata"]["name"]))


def _secret(management: Client, namespace: str, hosts: str, **data: str) -> None:
    secret = objects.secret("access", namespace, **data)
    secret["metadata"]["annotations"] = {HOSTS: hosts}
    management.apply(SECRET, secret, manager="user")


def _wanted(namespace: str, tag: str = V1) -> Event:
    about = {"apiVersion": CLUSTER_ADDON.api_version, "kind": "ClusterAddon"}
    metadata = {"namespace": namespace, "name": "addon"}
    data = {"release": tag, "namespace": namespace}
    return own_event("release.wanted", source="/test", subject=tag, about={**about, "metadata": metadata}, data=data)


# -- origin --------------------------------------------------------------------------------------------------------


def test_release_without_cluster_stack_comes_from_settings(clients: Clients, namespace: str, stack: Any) -> None:
    assert resolve_source(clients, namespace, NAME).scope == ""
    stack()
    stack("https://host/other", name="other", kubernetesVersion="1.35")
    assert resolve_source(clients, namespace, NAME).scope == ""
    assert list(resolve_source(clients, namespace, NAME).source.list()) == []


def test_scope_depends_on_namespace_urls_and_secret(clients: Clients, namespace: str, stack: Any) -> None:
    own = stack("https://host/x")
    scope = resolve_source(clients, namespace, NAME).scope
    assert scope == scope_of(own) == source_of_stack(clients, own).scope != ""
    scopes = {scope}
    for urls, secret in (
        (["https://host/y"], ""),
        (["https://host/x"], "access"),
        (["https://host/x", "oci://h/r"], ""),
    ):
        scopes.add(scope_of(stack(*urls, secret=secret)))
    elsewhere = {**own, "metadata": {**own["metadata"], "namespace": "elsewhere"}}
    scopes.add(scope_of(elsewhere))
    assert len(scopes) == 5


def test_cluster_stack_older_than_the_requesting_object_counts_at_once(
    clients: Clients, namespace: str, stack: Any
) -> None:
    other = stack("https://host/other", name="other", kubernetesVersion="1.35")
    assert resolve_source(clients, namespace, NAME, since=other["metadata"]["resourceVersion"]).scope == ""
    own = stack("https://host/x")
    assert resolve_source(clients, namespace, NAME, since=own["metadata"]["resourceVersion"]).scope == scope_of(own)


def test_cluster_stack_of_the_channel_then_the_oldest_is_the_source(
    management: Client, clients: Clients, namespace: str, stack: Any
) -> None:
    custom = stack("https://host/custom", name="a", channel="custom")
    first = stack("https://host/first", name="z")
    threading.Event().wait(1.1)  # of whole seconds is the age of an object
    stack("https://host/second", name="b")
    assert resolve_source(clients, namespace, NAME).scope == scope_of(first)
    other = ReleaseName.parse(f"{STACK}-v0-sha.abc")
    assert resolve_source(clients, namespace, other).scope == scope_of(custom)
    for name in ("z", "b"):
        management.delete(CLUSTER_STACK, Key(namespace, name))
    assert resolve_source(clients, namespace, NAME).scope == scope_of(custom)  # it may be in its spec.versions


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (None, "Secret {namespace}/access, which spec.sources names, does not exist"),
        ({"tokne": "t0ken"}, "Secret {namespace}/access has none of the keys token, "),
    ],
)
def test_unusable_secret_fails_the_fetch(
    management: Client, clients: Clients, namespace: str, stack: Any, secret: dict[str, str] | None, message: str
) -> None:
    origin = source_of_stack(clients, stack("https://host/x", secret="access"))
    if secret is not None:
        _secret(management, namespace, "h.example", **secret)
    for ask in (origin.source.list, lambda: list(origin.source.fetch(V1))):
        with pytest.raises(SourceError, match=message.format(namespace=namespace)) as caught:
            ask()
        assert not caught.value.transient
        assert "t0ken" not in str(caught.value)


# -- fetching --------------------------------------------------------------------------------------------------------


def test_release_comes_from_the_source_of_the_cluster_stack(
    management: Client, clients: Clients, namespace: str, stack: Any, site: HttpServer, store: ReleaseStore
) -> None:
    own = stack(site.url, secret="access")
    _secret(management, namespace, site.host, token="t0ken")
    answer = fetch(clients, _wanted(namespace))
    assert (answer.status, answer.message) == (200, f"{V1} fetched")
    assert answer.reply is not None
    assert (answer.reply.type, answer.reply.name) == ("dev.capi-functions.release.fetched", "addon")
    assert {request.authorization for request in site.requests} == {"Bearer t0ken"}
    assert store.in_scope(scope_of(own)).load(V1) is not None
    assert store.load(V1) is None  # nobody else gets it


def test_tenant_cannot_replace_a_release_of_others(
    clients: Clients, namespace: str, stack: Any, site: HttpServer, store: ReleaseStore, tmp_path: Path
) -> None:
    write_release(tmp_path / "operators", "v901", values="from: operator")
    stack(site.url)
    fetch(clients, _wanted(namespace))
    fetch(clients, _wanted("elsewhere"))
    release = store.load(V1)
    assert release is not None
    assert store.read(release, "cluster-addon-values.yaml") == b"from: operator"


def test_folder_in_spec_sources_is_refused(
    clients: Clients, namespace: str, stack: Any, tmp_path: Path, store: ReleaseStore
) -> None:
    write_release(tmp_path / "operators", "v901")
    for url in (str(tmp_path / "operators"), f"file://{tmp_path}/operators"):
        own = stack(url)
        assert "only the setting RELEASE_SOURCE may name a folder" in fetch(clients, _wanted(namespace)).message
        failure = store.in_scope(scope_of(own)).last_failure(V1)
        assert failure is not None
        assert "only the setting RELEASE_SOURCE may name a folder" in failure[0]


def test_failure_is_recorded_for_all_that_share_the_source(
    management: Client, clients: Clients, namespace: str, stack: Any, site: HttpServer, store: ReleaseStore
) -> None:
    own = stack(f"{site.url}/nowhere", secret="access")
    _secret(management, namespace, site.host, token="t0ken")
    answer = fetch(clients, _wanted(namespace))
    assert (answer.status, answer.message) == (200, f"no release '{V1}' in {site.url}/nowhere")
    failure = store.in_scope(scope_of(own)).last_failure(V1)
    assert failure is not None
    assert failure[0] == answer.message
    assert store.last_failure(V1) is None


def test_namespace_of_the_requesting_object_decides_the_source(
    clients: Clients, namespace: str, stack: Any, site: HttpServer
) -> None:
    """An event from before there were namespaces in its data."""
    stack(site.url)
    event = own_event("release.wanted", source="/t", subject=V1, about=None, data={"release": V1})
    requester = Event(**{**event.__dict__, "kind": "ClusterAddon", "namespace": namespace, "name": "addon"})
    assert fetch(clients, requester).message == f"{V1} fetched"
    assert site.requests != []


@pytest.mark.parametrize("data", [{"release": 7}, {"release": "nonsense"}, {"release": V1, "namespace": 7}])
def test_malformed_event_is_refused(clients: Clients, data: Object) -> None:
    event = own_event("release.wanted", source="/t", subject="x", data=data)
    assert fetch(clients, event).status == 400


def test_no_request_is_sent_before_retry_after(
    clients: Clients, namespace: str, stack: Any, site: HttpServer, content: dict[str, bytes], object_store: ObjectStore
) -> None:
    own = stack(site.url)
    site.answer = lambda _: Response(429, headers={"Retry-After": "17"})
    answer = fetch(clients, _wanted(namespace))
    assert (answer.status, answer.retry_after) == (200, 17)
    assert answer.reply is not None  # the addon tells why it waits
    site.answer = files(content)
    sent = len(site.requests)
    for _ in range(3):  # whoever asks, and in whatever process
        answer = fetch(Clients(clients.management), _wanted(namespace))
        assert answer.status == 202
        assert 0 < (answer.retry_after or 0) <= 17
        assert "limits requests" in answer.message
    assert len(site.requests) == sent
    assert fetch(clients, _wanted("elsewhere")).status == 200  # that is another source
    key = f"scopes/{scope_of(own)}/failures/{V1}.json"
    note = json.loads(Records(object_store).get(key) or b"")
    note["until"] = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    Records(object_store).put(key, json.dumps(note).encode(), if_absent=False)
    assert fetch(clients, _wanted(namespace)).message == f"{V1} fetched"
    assert object_store.get(key) is None


def test_concurrent_requests_for_a_failing_release_send_one_request(
    clients: Clients,
    namespace: str,
    stack: Any,
    site: HttpServer,
    content: dict[str, bytes],
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that is down may take a whole timeout, and each request a thread for as long."""
    own = stack(site.url)
    monkeypatch.setattr(release_assets, "_LOCK", lock := KeyedLock("the fetch of releases", timeout=60))
    callers = 4

    def fail(_request: Request) -> Response:
        until(lambda: [users for _, users in lock._locks.values()] == [callers], "all requests wait for the first")
        return Response(503)

    site.answer = fail
    with ThreadPoolExecutor(callers) as pool:
        answers = list(pool.map(lambda _: fetch(clients, _wanted(namespace)), range(callers)))
    assert len(site.requests) == 1
    assert all("answers with HTTP 503" in answer.message for answer in answers)
    assert all(answer.reply is not None for answer in answers)  # nobody knew before
    monkeypatch.setattr(release_assets, "_LOCK", KeyedLock("the fetch of releases"))
    key = f"scopes/{scope_of(own)}/failures/{V1}.json"
    note = json.loads(Records(object_store).get(key) or b"")
    pause = datetime.fromisoformat(note["until"]) - datetime.fromisoformat(note["at"])
    assert pause == timedelta(seconds=release_assets.PAUSE)
    later = datetime.now(UTC) + timedelta(hours=1)
    Records(object_store).put(key, json.dumps({**note, "until": later.isoformat()}).encode(), if_absent=False)
    answer = fetch(clients, _wanted(namespace))
    assert (answer.status, answer.reply, len(site.requests)) == (202, None, 1)
    Records(object_store).put(key, json.dumps({**note, "until": note["at"]}).encode(), if_absent=False)
    site.answer = files(content)
    assert fetch(clients, _wanted(namespace)).message == f"{V1} fetched"


def test_concurrent_requests_are_deduplicated_by_release(
    clients: Clients,
    namespace: str,
    stack: Any,
    site: HttpServer,
    content: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine a fetch can take longer than a thread waits for it otherwise.
    monkeypatch.setattr(release_assets, "_LOCK", KeyedLock("the fetch of releases", limit=3, timeout=60))
    stack(site.url)
    both, serve = threading.Barrier(2), files(content)

    def answer(request: Request) -> Response:
        if request.path.endswith("/metadata.yaml"):
            both.wait(HANGS)  # raises unless the other release is asked for at the same time
        return serve(request)

    site.answer = answer
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda tag: fetch(clients, _wanted(namespace, tag)), [V1, V2] * 3))
    assert sorted(answer.message for answer in answers) == sorted(
        [f"{V1} fetched", f"{V2} fetched"] + [f"{tag} is stored already" for tag in (V1, V2)] * 2
    )
    paths = [request.path for request in site.requests]
    assert len(paths) == len(set(paths))


SAVE = """
import sys
from pathlib import Path
from shared.releases.sources.folder import FolderSource
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore
store = ReleaseStore(ObjectStore.from_env())
store.load(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
release = store.save(sys.argv[2], FolderSource(Path(sys.argv[1])))
print(release.files["cluster-addon-values.yaml"].digest)
"""


def test_two_processes_agree_on_one_release(tmp_path: Path, store: ReleaseStore) -> None:
    """Each from a source with another content under the same tag."""
    processes = []
    try:
        for number in ("1", "2"):
            write_release(tmp_path / number, "v901", values=f"from: {number}")
            command = [sys.executable, "-c", SAVE, str(tmp_path / number), V1]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(2) as pool:
            outputs = [out for out, _ in pool.map(lambda process: process.communicate("\n", timeout=60), processes)]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    release = store.load(V1)
    assert release is not None
    assert [text.strip() for text in outputs] == [release.files["cluster-addon-values.yaml"].digest] * 2
    assert store.read(release, "cluster-addon-values.yaml") in (b"from: 1", b"from: 2")


def test_with_the_rights_of_the_generated_roles(
    management: Client, namespace: str, kubeconfig: Path, stack: Any, site: HttpServer, store: ReleaseStore
) -> None:
    own = stack(site.url, secret="access")
    _secret(management, namespace, site.host, token="t0ken")
    fetcher, pruner = (as_function(management, kubeconfig, name) for name in ("release_assets", "release_prune"))
    try:
        until(lambda: fetch(fetcher, _wanted(namespace)).status == 200)  # the authorizer learns of new roles in moments
        assert store.in_scope(scope_of(own)).load(V1) is not None
        until(lambda: prune(pruner, _timer()).status == 204)
    finally:
        fetcher.management.close()
        pruner.management.close()


# -- pruning ---------------------------------------------------------------------------------------------------------


def _timer(**data: Any) -> Event:
    return Event(type=PING, source="/test", id="1", data=data or {"everything": True})


@pytest.fixture
def no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_KEEP_HOURS", "0")


@pytest.mark.usefixtures("no_age")
def test_referenced_releases_stay_and_others_are_pruned(
    management: Client,
    clients: Clients,
    namespace: str,
    stack: Any,
    site: HttpServer,
    store: ReleaseStore,
    tmp_path: Path,
) -> None:
    for version in ("v901", "v902", "v903", "v904", "v905"):
        write_release(tmp_path / "operators", version)
        fetch(clients, _wanted("elsewhere", f"{STACK}-{version}"))
    own = stack(site.url, versions=["v901"])
    _apply(management, CLUSTER_STACK_RELEASE, namespace, V2, spec={})
    topology = {"classRef": {"name": f"{STACK}-v903", "namespace": "elsewhere"}}
    _apply(management, CLUSTER, namespace, "demo", spec={"topology": topology})
    reference = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "other", "namespace": namespace}
    _apply(
        management, CLUSTER_ADDON, namespace, "addon", spec={"clusterStack": f"{STACK}-v904", "clusterRef": reference}
    )
    fetch(clients, _wanted(namespace, V1))
    threading.Event().wait(1.1)  # of whole seconds is the age of what is stored
    try:
        answer = prune(clients, _timer())
        assert (answer.status, answer.message.partition(", ")[0]) == (204, "1 release")
        there = [number for number in range(901, 906) if store.load(f"{STACK}-v{number}")]
        assert there == [901, 902, 903, 904]
        assert store.in_scope(scope_of(own)).load(V1) is not None
        management.delete(CLUSTER_STACK, Key(namespace, "stack"))
        prune(clients, _timer())
        assert store.in_scope(scope_of(own)).load(V1) is None
        assert store.load(V1) is None
        assert fetch(clients, _wanted("elsewhere", V1)).message == f"{V1} fetched"  # whatever went comes again
    finally:
        for resource, name in ((CLUSTER_STACK_RELEASE, V2), (CLUSTER, "demo"), (CLUSTER_ADDON, "addon")):
            management.delete(resource, Key(namespace, name))


def test_recent_releases_are_not_pruned(clients: Clients, store: ReleaseStore, tmp_path: Path) -> None:
    write_release(tmp_path / "operators", "v901")
    fetch(clients, _wanted("elsewhere"))
    assert prune(clients, _timer()).message == "0 releases, 0 blobs and 0 charts deleted"
    assert store.load(V1) is not None


@pytest.mark.usefixtures("no_age")
@pytest.mark.parametrize("event", [_timer(kind="ClusterStack"), _timer(x=1), Event(type="x", source="/t", id="1")])
def test_other_events_prune_nothing(clients: Clients, store: ReleaseStore, tmp_path: Path, event: Event) -> None:
    write_release(tmp_path / "operators", "v901")
    fetch(clients, _wanted("elsewhere"))
    threading.Event().wait(1.1)
    assert prune(clients, event).status == 204
    assert store.load(V1) is not None


@pytest.mark.usefixtures("no_age")
def test_nothing_is_pruned_unless_all_kinds_can_be_listed(
    clients: Clients, store: ReleaseStore, tmp_path: Path
) -> None:
    write_release(tmp_path / "operators", "v901")
    fetch(clients, _wanted("elsewhere"))
    threading.Event().wait(1.1)
    nowhere = Client(Credentials("http://127.0.0.1:1"), attempts=1)
    with pytest.raises(Unavailable):
        list(nowhere.list(CLUSTER))
    assert prune(Clients(nowhere), _timer()).status == 503
    assert store.load(V1) is not None
    assert prune(clients, _timer()).status == 204
    assert store.load(V1) is None


@pytest.mark.parametrize("hours", ["nonsense", "-1", "nan", "inf", ""])
def test_invalid_keep_hours_mean_the_default(
    clients: Clients, store: ReleaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: str
) -> None:
    monkeypatch.setenv("RELEASE_KEEP_HOURS", hours)
    write_release(tmp_path / "operators", "v901")
    fetch(clients, _wanted("elsewhere"))
    assert prune(clients, _timer()).status == 204
    assert store.load(V1) is not None


# -- other namespaces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "allowed", "requester", "open_"),
    [
        (["https://host/x"], None, "own", True),
        (["https://host/x"], None, "team", False),
        (["https://host/x"], [], "team", False),
        (["https://host/x"], ["team", "other"], "team", True),
        (["https://host/x"], ["team-2"], "team", False),
        (["https://host/x"], ["*"], "team", True),
        ([], None, "team", True),
    ],
)
def test_release_of_a_cluster_stack_is_for_allowed_namespaces(
    clients: Clients, sources: list[str], allowed: list[str] | None, requester: str, open_: bool
) -> None:
    spec = {"sources": [{"url": url} for url in sources], "allowedNamespaces": allowed}
    origin = source_of_stack(clients, {"metadata": {"namespace": "own", "name": "stack"}, "spec": spec})
    assert origin.allows(requester) is open_


def test_failed_fetches_do_not_block_other_releases(
    clients: Clients, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed download kept its lock, and every later download waited forever."""
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    monkeypatch.setattr("functions.release_assets.function._is_referenced", lambda *_: True)
    good = [write_release(tmp_path, f"v{number}", [config_map(f"m{number}")]) for number in range(1, 5)]
    bad = [f"{STACK}-v{number}" for number in range(11, 15)]
    fetch = catalog.handler("release_assets")

    def request(tag: str) -> int:
        """Delivers the request as a broker does: again after a 503, while other fetches use all threads."""
        event = own_event("release.wanted", source="/test", subject=tag, data={"release": tag})
        statuses = (fetch(clients, event).status for _ in count())
        return next(status for status in statuses if status != 503)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(request, tag) for pair in zip(bad, good, strict=True) for tag in pair]:
            assert future.result(timeout=60) in (200, 204)
    for tag in good:
        assert clients.releases.load(tag) is not None
    for tag in bad:
        failure = clients.releases.last_failure(tag)
        assert failure is not None
        assert tag in failure[0]
