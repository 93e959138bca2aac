"""Charts from real https repositories and registries, with a real API server and a real object store."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.chart_assets.function import handle as fetch
from functions.release_prune.function import handle as prune
from shared.api.resources import HELM_RELEASE_PROXY, NAMESPACE, SECRET
from shared.clients import Clients
from shared.download import web
from shared.download.access import HOSTS
from shared.event import PING, Event
from shared.helm_charts import store as chart_store
from shared.helm_charts.access import NAMESPACES
from shared.helm_charts.request import FETCHED, ChartRequest, request_chart
from shared.helm_charts.store import ChartStore, MissingChart, StoredChart, read_chart
from shared.kube import Client, Key, Object, dig
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.accounts import as_function
from tests.support.chart_repository import ChartRepository, chart
from tests.support.http_server import HttpServer, Request, Response, files
from tests.support.registry import PASSWORD, USER, StartRegistry, certificate, htpasswd

_BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.fixture(autouse=True)
def environment(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.chart_assets.function.PAUSE", 0.0)
    monkeypatch.setattr("shared.runtime.clean_up.MIN_INTERVAL", 0.0)


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    certificate(tmp_path)
    return tmp_path


@pytest.fixture
def trusted(tls: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The CA of the repositories is one of the system's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tls / "ca.crt"))
    web._context.cache_clear()
    yield
    web._context.cache_clear()


@pytest.fixture
def repository() -> ChartRepository:
    found = ChartRepository()
    for version in ("1.0.0", "1.1.0", "2.0.0-rc.1"):
        found.add("demo", version)
    return found


@pytest.fixture
def site(repository: ChartRepository, tls: Path) -> Iterator[HttpServer]:
    with repository.serve(tls) as site:
        yield site


class Charts:
    """HelmReleaseProxies of one namespace, and the function called as a broker calls it."""

    def __init__(self, clients: Clients, namespace: str) -> None:
        self.clients, self.namespace, self.client = clients, namespace, clients.management
        self.made: list[Key] = []

    def proxy(self, url: str, name: str = "demo", *, version: str = "", chart: str = "demo", **spec: Any) -> Object:
        reference = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo"}
        spec = {"clusterRef": reference, "chartName": chart, "repoURL": url, "version": version} | spec
        body = objects.manifest(HELM_RELEASE_PROXY, name, self.namespace, spec=spec)
        key = Key(self.namespace, name)
        present = dig(self.client.find(HELM_RELEASE_PROXY, key), "spec", {})
        if (present.get("chartName", chart), present.get("repoURL", url)) != (chart, url):  # they cannot change
            objects.remove(self.client, HELM_RELEASE_PROXY, key)
        self.made.append(key)
        return self.client.apply(HELM_RELEASE_PROXY, body, manager="user")

    def secret(self, name: str, namespace: str = "", annotations: dict[str, str] | None = None, **data: str) -> Object:
        body = objects.manifest(SECRET, name, namespace or self.namespace, metadata={"annotations": annotations or {}})
        keys = {key.replace("_", "."): value for key, value in data.items()}
        return self.client.apply(SECRET, body | {"stringData": keys}, manager="user")

    def call(self, proxy: Object, clients: Clients | None = None) -> Answer:
        return fetch(clients or self.clients, replace(request_chart(proxy, source="/test"), id="1"))

    def read(self, proxy: Object) -> StoredChart | MissingChart:
        return read_chart(self.clients, ChartRequest.from_spec(proxy["spec"], self.namespace))

    def stored(self, proxy: Object) -> StoredChart:
        answer, found = self.call(proxy), self.read(proxy)
        assert isinstance(found, StoredChart), answer
        return found

    def failure(self, proxy: Object) -> str:
        answer, found = self.call(proxy), self.read(proxy)
        assert isinstance(found, MissingChart), answer
        assert answer.reply is not None
        assert found.failed_at is not None
        return found.failure


@pytest.fixture
def charts(clients: Clients, namespace: str) -> Iterator[Charts]:
    charts = Charts(clients, namespace)
    yield charts
    for key in charts.made:
        objects.remove(charts.client, HELM_RELEASE_PROXY, key)


# -- https -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("version", "found"), [("", "1.1.0"), ("1.0.0", "1.0.0"), ("<1.1", "1.0.0"), (">=2.0.0-0", "2.0.0-rc.1")]
)
def test_chart_of_a_version(
    charts: Charts, site: HttpServer, repository: ChartRepository, version: str, found: str
) -> None:
    proxy = charts.proxy(f"{site.url}/repo", version=version)
    missing = charts.read(proxy)
    assert isinstance(missing, MissingChart)
    assert missing.fetch_request(proxy, datetime.now(UTC), source="/test") is not None
    stored = charts.stored(proxy)
    assert (stored.name, stored.version) == ("demo", found)
    assert stored.archive == repository.files[f"/repo/charts/demo-{found}.tgz"]


@pytest.mark.usefixtures("trusted")
def test_answer_is_about_the_object_and_a_stored_chart_is_not_fetched_again(charts: Charts, site: HttpServer) -> None:
    proxy = charts.proxy(f"{site.url}/repo", version="1.0.0")
    for _ in range(2):
        answer = charts.call(proxy)
        assert answer.reply is not None
        assert (answer.reply.type, answer.reply.name) == (FETCHED, "demo")
    assert [request.path for request in site.requests] == ["/repo/index.yaml", "/repo/charts/demo-1.0.0.tgz"]


@pytest.mark.usefixtures("trusted")
def test_only_an_existing_object_has_its_chart_fetched(charts: Charts, site: HttpServer) -> None:
    proxy = charts.proxy(f"{site.url}/repo")
    objects.remove(charts.client, HELM_RELEASE_PROXY, Key(charts.namespace, "demo"))
    answer = charts.call(proxy)
    assert (answer.status, answer.reply, site.requests) == (204, None, [])


@pytest.mark.usefixtures("trusted")
def test_range_is_looked_up_again_when_it_is_old(
    charts: Charts, site: HttpServer, repository: ChartRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, exact = (
        charts.proxy(f"{site.url}/repo", version="1.x"),
        charts.proxy(f"{site.url}/repo", "b", version="1.0.0"),
    )
    first, fixed = charts.stored(proxy), charts.stored(exact)
    now = datetime.now(UTC)
    later = now + timedelta(seconds=chart_store.LOOKUP_AGE + 60)
    assert first.lookup_request(proxy, now, source="/test") is None
    assert first.lookup_request(proxy, later, source="/test") is not None
    assert fixed.lookup_request(exact, later, source="/test") is None
    repository.add("demo", "1.2.0")
    assert charts.stored(proxy).version == "1.1.0"
    monkeypatch.setattr(chart_store, "LOOKUP_AGE", 0.0)
    assert charts.stored(proxy).version == "1.2.0"
    repository.entries.clear()
    kept = charts.stored(proxy)
    assert kept.version == "1.2.0"
    assert kept.failed is not None
    monkeypatch.setattr(chart_store, "LOOKUP_AGE", 600.0)
    assert kept.lookup_request(proxy, now + timedelta(seconds=300), source="/test") is None


@pytest.mark.usefixtures("trusted")
def test_query_of_the_repository_is_kept_and_entries_may_have_any_url(
    charts: Charts, site: HttpServer, repository: ChartRepository
) -> None:
    repository.add("other", "1.0.0", urls=[f"{site.url}/repo/charts/other-1.0.0.tgz"])
    charts.stored(charts.proxy(f"{site.url}/repo?token=abc"))
    charts.stored(charts.proxy(f"{site.url}/repo?token=abc", "other", chart="other"))
    paths = [request.path for request in site.requests]
    assert paths[:2] == ["/repo/index.yaml?token=abc", "/repo/charts/demo-1.1.0.tgz?token=abc"]
    assert paths[3] == "/repo/charts/other-1.0.0.tgz"


@pytest.mark.usefixtures("trusted")
def test_reason_of_a_failure(charts: Charts, site: HttpServer, repository: ChartRepository) -> None:
    url = f"{site.url}/repo"
    repository.add("changed", "1.0.0", digest="0" * 64)
    repository.add("broken", "1.0.0", b"no archive")
    repository.add("unnamed", "1.0.0", chart("unnamed", "latest"))
    for name, version, expected in (
        ("demo", "3", "has no version '3'"),
        ("demo", "latest", "neither a version nor a range"),
        ("missing", "", "has no chart 'missing'"),
        ("changed", "", "does not match its digest"),
        ("broken", "", "not a gzip-compressed tar archive"),
        ("unnamed", "", "no semantic version"),
    ):
        assert expected in charts.failure(charts.proxy(url, chart=name, version=version))
    assert "HTTP 404" in charts.failure(charts.proxy(site.url))
    assert "put them into the Secret" in charts.failure(charts.proxy(url.replace("://", "://me:secret-word@")))


@pytest.mark.usefixtures("trusted")
def test_hostile_indexes(charts: Charts, tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.helm_charts.fetch.MAX_INDEX", 1000)
    deep, large = b"apiVersion: v1\nentries: " + b"[" * 500, b" " * 1001
    for body, expected in ((b"<html>", "no apiVersion"), (b"a: [", "not YAML"), (deep, "nested"), (large, "more than")):
        with HttpServer(files({"/index.yaml": body}), tls) as site:
            assert expected in charts.failure(charts.proxy(site.url))


@pytest.mark.usefixtures("trusted")
def test_repositories_that_the_installation_does_not_allow(
    charts: Charts, site: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHART_ALLOWED_SOURCES", f"{site.url}/other oci://registry.example.com/")
    assert "CHART_ALLOWED_SOURCES" in charts.failure(charts.proxy(f"{site.url}/repo"))
    monkeypatch.setenv("CHART_ALLOWED_SOURCES", f"{site.url}/repo")
    charts.stored(charts.proxy(f"{site.url}/repo"))


def test_link_local_addresses_are_refused(charts: Charts) -> None:
    for url in ("https://169.254.169.254/repo", "oci://169.254.169.254/repo"):
        assert "which is refused" in charts.failure(charts.proxy(url))


@pytest.mark.usefixtures("trusted")
def test_failures_are_held_for_as_long_as_the_repository_wants(charts: Charts, tls: Path) -> None:
    with HttpServer(lambda _: Response(429, headers={"Retry-After": "300"}), tls) as site:
        proxy = charts.proxy(site.url)
        assert "limits requests" in charts.failure(proxy)
        answer = charts.call(proxy)
        assert answer.retry_after is not None
        assert 200 < answer.retry_after <= 300
        assert len(site.requests) == 1
    missing = charts.read(proxy)
    assert isinstance(missing, MissingChart)
    assert missing.fetch_request(proxy, datetime.now(UTC), source="/test") is None


# -- trust and credentials -------------------------------------------------------------------------------------------


def test_certificates(charts: Charts, site: HttpServer, tls: Path) -> None:
    url, ca = f"{site.url}/repo", {"caSecret": {"name": "ca"}}
    assert "is not trusted" in charts.failure(charts.proxy(url))
    assert "Secret" in charts.failure(charts.proxy(url, tlsConfig=ca))
    charts.secret("ca", ca_crt="none")
    assert "no certificate in PEM" in charts.failure(charts.proxy(url, tlsConfig=ca))
    charts.secret("ca", ca_crt=(tls / "ca.crt").read_text())
    charts.stored(charts.proxy(url, tlsConfig=ca))
    charts.stored(charts.proxy(url, tlsConfig={"insecureSkipTLSVerify": True}))


def _guarded(repository: ChartRepository) -> Callable[[Request], Response]:
    return lambda request: repository.answer(request) if request.authorization == _BASIC else Response(401)


def _config(host: str, password: str = PASSWORD) -> str:
    return json.dumps({"auths": {host: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}}})


CREDENTIALS = {"secret": {"name": "login"}, "key": ""}


@pytest.mark.usefixtures("trusted")
def test_credentials_of_a_config_json(charts: Charts, repository: ChartRepository, tls: Path) -> None:
    with HttpServer(_guarded(repository), tls) as site:
        proxy = charts.proxy(f"{site.url}/repo", credentials=CREDENTIALS)
        assert "Secret" in charts.failure(proxy)
        charts.secret("login", config_json=_config("other.example.com"))
        assert "HTTP 401" in charts.failure(proxy)
        assert {request.authorization for request in site.requests} == {None}
        charts.secret("login", config_json=_config(site.host, "wrong-word"))
        assert "wrong-word" not in charts.failure(proxy)
        charts.secret("login", config_json=_config(site.host))
        charts.stored(proxy)


@pytest.mark.usefixtures("trusted")
def test_user_name_and_password_are_for_the_hosts_that_the_secret_names(
    charts: Charts, repository: ChartRepository, tls: Path
) -> None:
    with HttpServer(_guarded(repository), tls) as site:
        proxy = charts.proxy(f"{site.url}/repo", credentials=CREDENTIALS)
        for annotations in ({}, {HOSTS: "other.example.com"}):
            charts.secret("login", annotations=annotations, username=USER, password=PASSWORD)
            assert HOSTS in charts.failure(proxy)
        assert site.requests == []
        charts.secret("login", annotations={HOSTS: site.host}, username=USER, password=PASSWORD)
        charts.stored(proxy)


@pytest.mark.usefixtures("trusted")
def test_credentials_stay_with_the_repository(charts: Charts, repository: ChartRepository, tls: Path) -> None:
    with repository.serve(tls) as mirror, HttpServer(_guarded(repository), tls) as site:
        repository.add("far", "1.0.0", urls=[f"{mirror.url}/repo/charts/far-1.0.0.tgz"])
        charts.secret("login", config_json=_config(site.host))
        charts.stored(charts.proxy(f"{site.url}/repo", chart="far", credentials=CREDENTIALS))
        assert [request.authorization for request in mirror.requests] == [None]


@pytest.mark.usefixtures("trusted")
def test_secret_of_another_namespace_has_to_allow_it(charts: Charts, repository: ChartRepository, tls: Path) -> None:
    other = f"{charts.namespace}-other"
    charts.client.create(NAMESPACE, objects.manifest(NAMESPACE, other))
    credentials = {"secret": {"name": "login", "namespace": other}, "key": ""}
    with HttpServer(_guarded(repository), tls) as site:
        proxy = charts.proxy(f"{site.url}/repo", credentials=credentials)
        absent = charts.failure(proxy)
        charts.secret("login", other, config_json=_config(site.host))
        assert charts.failure(proxy) == absent
        assert NAMESPACES in absent
        charts.secret("login", other, {NAMESPACES: f"x, {charts.namespace}"}, config_json=_config(site.host))
        charts.stored(proxy)


@pytest.mark.usefixtures("trusted")
def test_private_chart_is_in_the_storage_of_its_namespace(
    charts: Charts, repository: ChartRepository, tls: Path, object_store: ObjectStore
) -> None:
    with HttpServer(_guarded(repository), tls) as site:
        charts.secret("login", config_json=_config(site.host))
        private = charts.proxy(f"{site.url}/repo", credentials=CREDENTIALS)
        charts.stored(private)
        assert "HTTP 401" in charts.failure(charts.proxy(f"{site.url}/repo", "public"))
    for spec, namespace in ((private["spec"], "other"), (private["spec"] | {"credentials": {}}, charts.namespace)):
        assert isinstance(read_chart(charts.clients, ChartRequest.from_spec(spec, namespace)), MissingChart)
    keys = object_store.list("charts/")
    assert sum(key.startswith(f"charts/namespaces/{charts.namespace}/archives/") for key in keys) == 1
    assert not any(PASSWORD.encode() in (object_store.get(key) or b"") for key in keys)


# -- OCI -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def push(helm: Path, tls: Path, tmp_path: Path) -> Callable[..., None]:
    """Pushes a chart with the helm program."""

    def push(host: str, *versions: str, login: bool = False) -> None:
        environment = {"HOME": str(tmp_path), "HELM_REGISTRY_CONFIG": str(tmp_path / "login.json")}
        if login:
            (tmp_path / "login.json").write_text(_config(host))
        for version in versions:
            (tmp_path / "demo.tgz").write_bytes(chart("demo", version))
            command = [helm, "push", tmp_path / "demo.tgz", f"oci://{host}/charts", "--ca-file", tls / "ca.crt"]
            subprocess.run(command, check=True, capture_output=True, env=environment)

    return push


@pytest.mark.usefixtures("trusted")
def test_chart_of_a_registry(
    charts: Charts, start_registry: StartRegistry, push: Callable[..., None], tls: Path
) -> None:
    host = start_registry(http={"tls": certificate(tls)[0]})
    web._context.cache_clear()
    push(host, "1.0.0", "1.1.0+build.1", "1.2.0-rc.1")
    for version, found in (
        ("1.0.0", "1.0.0"),
        ("", "1.1.0+build.1"),
        ("~1.1", "1.1.0+build.1"),
        (">=1.2-0", "1.2.0-rc.1"),
    ):
        assert charts.stored(charts.proxy(f"oci://{host}/charts", version=version)).version == found
    for version, expected in (("3.0.0", "has no version"), ("3", "has no version"), ("a", "nor a range")):
        assert expected in charts.failure(charts.proxy(f"oci://{host}/charts", version=version))
    assert "has no version" in charts.failure(charts.proxy(f"oci://{host}/charts", chart="missing"))
    assert "not a repository name" in charts.failure(charts.proxy(f"oci://{host}/charts", chart="../demo"))


def test_private_registry(charts: Charts, start_registry: StartRegistry, push: Callable[..., None], tls: Path) -> None:
    host = start_registry(http={"tls": certificate(tls)[0]}, auth=htpasswd(tls))
    push(host, "1.0.0", login=True)
    charts.secret("ca", ca_crt=(tls / "ca.crt").read_text())
    spec = {"tlsConfig": {"caSecret": {"name": "ca"}}}
    assert "HTTP 401" in charts.failure(charts.proxy(f"oci://{host}/charts", **spec))
    charts.secret("login", config_json=_config(host))
    charts.stored(charts.proxy(f"oci://{host}/charts", credentials=CREDENTIALS, **spec))
    insecure = {"tlsConfig": {"insecureSkipTLSVerify": True}}
    charts.stored(charts.proxy(f"oci://{host}/charts", credentials=CREDENTIALS, **insecure))


# -- storage and rights ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trusted")
def test_damaged_archive_is_fetched_again(charts: Charts, site: HttpServer, object_store: ObjectStore) -> None:
    proxy = charts.proxy(f"{site.url}/repo", version="1.0.0")
    digest = charts.stored(proxy).digest
    [key] = [key for key in object_store.list("charts/") if "/archives/" in key]
    assert digest.removeprefix("sha256:") in key
    object_store.put(key, chart("demo", "6.6.6"), if_absent=False)
    chart_store._CACHE._blobs.clear()
    assert isinstance(charts.read(proxy), MissingChart)
    assert charts.stored(proxy).version == "1.0.0"


@pytest.mark.usefixtures("trusted")
def test_unused_charts_are_deleted(
    charts: Charts, site: HttpServer, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, unused = charts.proxy(f"{site.url}/repo", version="1.0.0"), charts.proxy(f"{site.url}/repo", "b")
    charts.stored(used)
    charts.stored(unused)
    objects.remove(charts.client, HELM_RELEASE_PROXY, Key(charts.namespace, "b"))
    timer = Event(type=PING, source="/test", id="1", data={"everything": True})
    assert "0 charts deleted" in prune(charts.clients, timer).message
    monkeypatch.setenv("RELEASE_KEEP_HOURS", "0")
    assert "1 chart deleted" in prune(charts.clients, timer).message
    chart_store._CACHE._blobs.clear()
    assert isinstance(charts.read(used), StoredChart)
    assert isinstance(charts.read(unused), MissingChart)
    assert len(object_store.list("charts/")) == 2


@pytest.mark.usefixtures("trusted")
def test_rights_of_the_function_suffice(
    charts: Charts, repository: ChartRepository, tls: Path, management: Client, kubeconfig: Path
) -> None:
    with HttpServer(_guarded(repository), tls) as site:
        charts.secret("login", config_json=_config(site.host))
        proxy = charts.proxy(f"{site.url}/repo", credentials=CREDENTIALS)
        charts.call(proxy, as_function(management, kubeconfig, "chart_assets"))
        assert isinstance(charts.read(proxy), StoredChart)


def test_stored_charts_have_no_methods_that_download(charts: Charts) -> None:
    missing = ChartStore(ObjectStore.from_env()).load(ChartRequest("https://charts.example.com", "demo", "", "a"))
    assert isinstance(missing, MissingChart)
    assert missing.message == "chart demo is not in storage yet; its fetch has been requested"
