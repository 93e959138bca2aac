"""No failure leaks a secret into a log, an answer, an event, a status, a stored object or a capture."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from events.capture import Capture
from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, SECRET
from shared.clients import Clients
from shared.download.access import HOSTS
from shared.event import change_event, own_event
from shared.kube import Key, dig
from shared.releases.naming import ReleaseName
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Exchange, Proxy, api_server
from tests.support.api_proxy import Response as ProxyResponse
from tests.support.fake_provider import FakeProvider
from tests.support.http_server import HttpServer, Request, Response
from tests.support.leaks import WrittenTexts, conditions, forms
from tests.support.provider_releases import deployment, text
from tests.support.releases import write_release
from tests.support.world import World

TOKEN = "Pl4nted/s3cr3t+t0ken"
PASSWORD = 'Pl4nted/"p4ss\\w0rd"+&='
KINDS = (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE)


@pytest.fixture
def texts() -> Iterator[WrittenTexts]:
    found = WrittenTexts()
    with found.collect_logs():
        yield found


def test_planted_secrets_are_detected_in_all_encodings() -> None:
    """Otherwise the other tests of this module could not fail."""
    for before in ("", "a", "ab", "abc", "user:", '{"k":"'):
        for planted in (PASSWORD, TOKEN):
            encoded = base64.b64encode(f"{before}{planted}: and more".encode()).decode()
            assert any(form in encoded for form in forms(planted)), before


def kubeconfig(server: str, **user: Any) -> bytes:
    cluster = {"server": server, **user.pop("cluster", {})}
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": user}],
        }
    ).encode()


def echoing(exchange: Exchange) -> None:
    """A server or proxy that echoes the headers of the request in an error."""
    text = f"not you: {dict(exchange.request.headers)}"
    exchange.answer(ProxyResponse(500, text.encode(), {"Content-Type": "text/plain", "X-Was": TOKEN}))


def looking(world: World, texts: WrittenTexts) -> str:
    """Reconciles the Cluster's addons and returns their conditions."""
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    event = change_event(cluster, "update", source="/test")
    texts.call("addon_create", event, world.clients)
    answer = texts.call("addon_apply", event, world.clients)
    if answer.reply is not None:
        fetched = texts.call("release_assets", answer.reply, world.clients)
        if fetched.reply is not None:
            texts.call("addon_apply", fetched.reply, world.clients)
    return conditions(world.client.find(CLUSTER_ADDON, world.addon_key))


def test_workload_credentials_do_not_leak(
    world: World, texts: WrittenTexts, kubeconfig_path: Path, object_store: ObjectStore, tmp_path: Path
) -> None:
    capture = Capture(tmp_path / "capture", world.client, catalog.triggers())
    capture.start()
    assert capture.wait_synced(60)
    world.cluster(write_release(world.releases, "v1", [world.map("m")]))
    key = "-----BEGIN PRIVATE KEY-----\n" + base64.b64encode(PASSWORD.encode()).decode() + "\n-----END PRIVATE KEY-----"
    data = base64.b64encode(key.encode()).decode()
    with Proxy(api_server(kubeconfig_path)) as proxy:
        broken = {
            "a line break within": kubeconfig(proxy.url, token=f"{TOKEN}\r\nX-Evil: 1"),
            "no YAML": b"users: [{user: {token: " + TOKEN.encode() + b"}}",
            "not a string": kubeconfig(proxy.url, token={"x": TOKEN}),
            "no key": kubeconfig("https://127.0.0.1:1", **{"client-key-data": data, "client-certificate-data": data}),
            "no base64": kubeconfig(proxy.url, **{"client-key-data": PASSWORD}),
            "userinfo": kubeconfig(proxy.url.replace("//", f"//admin:{TOKEN}@")),
            "a proxy's userinfo": kubeconfig(proxy.url, cluster={"proxy-url": f"http://u:{TOKEN}@127.0.0.1:1"}),
            "an odd proxy": kubeconfig(proxy.url, cluster={"proxy-url": f"socks5://u:{TOKEN}@h"}),
        }
        for what, content in broken.items():
            world.secret(content)
            output = looking(world, texts)
            assert "demo-kubeconfig" in output or "not ready" in output, what
        good = kubeconfig(proxy.url, token=f"{TOKEN}\n", password=PASSWORD)
        world.secret(good)
        proxy.fail(echoing)
        assert "HTTP 500" in looking(world, texts)
        proxy.heal()
        proxy.fail(echoing, lambda request: request.writes)
        looking(world, texts)
        proxy.heal()
        looking(world, texts)
        assert dig(world.addon(), "status.ready") is True
        assert any(TOKEN in str(request.headers) for request in proxy.seen)  # it was in use
    capture.stop()
    texts.add_objects(world.client, world.namespace, KINDS)
    texts.add_stored_objects(object_store)
    texts.add_files(tmp_path / "capture")
    assert texts.kinds() >= {"log", "JSON log", "answer", "event", "ClusterAddon", "Cluster", "stored", "capture"}
    assert texts.find(TOKEN, PASSWORD) == []


@pytest.fixture
def kubeconfig_path(kubeconfig: Path) -> Path:
    return kubeconfig


def test_secrets_rendered_by_charts_do_not_leak(world: World, texts: WrittenTexts) -> None:
    """The API server rejects the rendered objects and quotes their values."""
    template = """
apiVersion: v1
kind: Secret
metadata: {name: made, namespace: %s}
data: {password: {{ .Values.password | quote }}}
"""
    values = 'values: |\n  password: {{ index .Cluster.metadata.annotations "password" | quote }}\n'
    tag = write_release(world.releases, "v1", templates={"s.yaml": template % world.namespace}, values=values)
    cluster = world.cluster(tag)
    annotated = {"metadata": {"annotations": {"password": PASSWORD}}}
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), annotated)
    assert cluster["metadata"]["name"] == "demo"
    world.secret()
    output = looking(world, texts)
    assert "Secret" in output or "values" in output
    texts.add_objects(world.client, world.namespace, KINDS, whole=False)
    assert texts.find(PASSWORD) == []


def refusing(status: int) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        body = f"<Error><Code>{request.authorization}</Code><Message>{request.headers} {request.path}</Message></Error>"
        challenge = 'Basic realm="x"' if "Basic" in str(request.authorization) else f'Bearer realm="{request.path}"'
        return Response(status, body.encode(), {"WWW-Authenticate": challenge})

    return answer


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 429, 500])
@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        ("", {"token": TOKEN}),
        ("", {"username": "me", "password": PASSWORD}),
        ("github+", {"token": TOKEN}),
        ("oci+", {"username": "me", "password": PASSWORD}),
        ("oci+", {"token": TOKEN}),
        ("s3", {"accessKeyId": "me", "secretAccessKey": PASSWORD}),
        ("userinfo", {"token": TOKEN}),
        ("two lines", {"token": f"{TOKEN}\n{TOKEN}"}),
    ],
)
def test_source_credentials_do_not_leak(
    world: World, texts: WrittenTexts, object_store: ObjectStore, scheme: str, secret: dict[str, str], status: int
) -> None:
    tag = "test-stack-1-36-v9"
    with HttpServer(refusing(status)) as site:
        url = {
            "s3": "s3://bucket/prefix",
            "userinfo": site.url.replace("//", f"//u:{TOKEN}@"),
            "two lines": site.url,
        }.get(scheme, f"{scheme}{site.url}/a/b")
        if scheme == "s3":
            secret = {**secret, "endpoint": site.url}
        access = objects.secret("access", world.namespace, **secret)
        access["metadata"]["annotations"] = {HOSTS: site.host}
        world.client.apply(SECRET, access, manager="user")
        release = ReleaseName.parse(tag)
        spec = {
            "provider": release.provider,
            "name": release.name,
            "kubernetesVersion": "1.36",
            "noProvider": True,
            "autoSubscribe": True,
            "sources": [{"url": url, "secretRef": {"name": "access"}}],
        }
        stack = objects.manifest(CLUSTER_STACK, "stack", world.namespace, spec=spec)
        stack = world.client.apply(CLUSTER_STACK, stack, manager="user")
        world.cluster(tag)
        try:
            texts.call("cluster_stack", change_event(stack, "update", source="/test"), world.clients)
            output = looking(world, texts)
            # Not the spec, which may contain the URL.
            texts.add_objects(world.client, world.namespace, [CLUSTER_STACK], whole=False)
        finally:
            objects.remove(world.client, CLUSTER_STACK, Key(world.namespace, "stack"))
        sent = [request.authorization for request in site.requests if request.authorization]
        assert bool(sent) == (scheme in ("", "github+", "s3") or (scheme == "oci+" and sent != []))
    assert output
    texts.add_objects(world.client, world.namespace, (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK_RELEASE))
    texts.add_stored_objects(object_store)
    assert texts.find(TOKEN, PASSWORD) == []


@pytest.mark.parametrize("status", [400, 403, 500])
def test_object_store_credentials_do_not_leak(
    clients: Clients, texts: WrittenTexts, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with HttpServer(refusing(status)) as site:
        monkeypatch.setenv("S3_ENDPOINT_URL", site.url.replace("//", f"//u:{TOKEN}@"))
        monkeypatch.setenv("CAPI_FUNCTIONS_BUCKET", "bucket")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
        event = own_event("release.wanted", source="/t", subject="x", data={"release": "test-stack-1-36-v9"})
        assert texts.call("release_assets", event, clients).status in (500, 503)
    assert texts.find(TOKEN, PASSWORD) == []


@pytest.mark.parametrize(
    "planted",
    [PASSWORD, f"{PASSWORD}\nsecond {TOKEN}", f"{{{TOKEN}", f"[{TOKEN}", "4815162342", f"& {TOKEN}", f"'{TOKEN}"],
)
@pytest.mark.parametrize("place", ["quoted", "anywhere"])
def test_provider_variables_do_not_leak(core: FakeProvider, texts: WrittenTexts, planted: str, place: str) -> None:
    """The API server or a parser rejects the objects with substituted variables."""
    crooked = deployment("made-up", "v1.1.0")
    container = crooked["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "P", "value": "PUT-IT-HERE", **({"nope": 1} if place == "quoted" else {})}]
    put = '"${PASSWORD}"' if place == "quoted" else "${PASSWORD}"
    core.publish("v1.1.0", text([crooked]).replace("PUT-IT-HERE", put))
    secret = {"PASSWORD": planted, "github-token": TOKEN}
    core.providers.secret("variables", core.namespace, **secret)
    core.apply("v1.1.0", configSecret={"name": "variables"})
    core.reconcile()
    texts.add_objects(core.providers.client, core.namespace, (core.kind.resource,))
    for _, answer in core.providers.answers:
        texts.add("answer", f"{answer.message} {answer.context}")
    lines = [line.strip() for line in planted.splitlines()]
    texts.add_stored_objects(ObjectStore.from_env())
    assert texts.find(TOKEN, planted, *lines) == []
