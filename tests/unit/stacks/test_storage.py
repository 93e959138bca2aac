"""Object storage in a folder and on a real server, and on servers that fail as real ones do."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.local.services import wipe
from shared import buckets, storage
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.settings import FOLDER, Settings
from shared.storage import ObjectStore, StorageError, StorageUnavailable
from tests.support.http_server import HttpServer, Request, Response
from tests.support.moto_server import listen

pytest_plugins = ["tests.support.object_store"]

Failing = Callable[[int, str], str]
KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


def at(url: str, **settings: str) -> ObjectStore:
    """A bucket at an endpoint."""
    return ObjectStore("s3://bucket", {"S3_ENDPOINT_URL": url, **KEYS, **settings})


@pytest.fixture(params=["bucket", "prefix", "folder"])
def store(request: pytest.FixtureRequest, object_store: ObjectStore, tmp_path: Path) -> ObjectStore:
    """Every kind of store that can run here."""
    urls = {
        "bucket": object_store.url,
        "prefix": f"{object_store.url}/a/prefix",
        "folder": (tmp_path / "a folder").as_uri(),
    }
    return ObjectStore(urls[request.param])


def test_object_is_read_as_written(store: ObjectStore) -> None:
    data = bytes(range(256)) * 1000
    assert store.put("a/b", data, if_absent=False)
    assert store.get("a/b") == data
    assert store.exists("a/b")


def test_absent_object_is_none(store: ObjectStore) -> None:
    assert store.get("nope") is None
    assert not store.exists("nope")
    store.delete("nope")


def test_absent_bucket_reads_as_absent_and_is_created_by_the_first_write(object_store: ObjectStore) -> None:
    gone = ObjectStore(f"{object_store.url}-gone")
    assert gone.get("k") is None
    assert not gone.exists("k")
    assert gone.list("") == ()
    gone.delete("k")
    with ThreadPoolExecutor(4) as pool:  # one of them creates the bucket
        assert sorted(pool.map(lambda _: gone.put("k", b"v", if_absent=True), range(4))) == [False] * 3 + [True]
    assert gone.get("k") == b"v"


def test_put_if_absent_keeps_the_first_object(store: ObjectStore) -> None:
    assert store.put("k", b"first", if_absent=True)
    assert not store.put("k", b"second", if_absent=True)
    assert store.get("k") == b"first"
    assert store.put("k", b"third", if_absent=False)
    assert store.get("k") == b"third"


def test_deleted_object_is_absent(store: ObjectStore) -> None:
    store.put("k", b"x", if_absent=False)
    store.delete("k")
    assert not store.exists("k")


def test_list_pages_through_everything_under_a_prefix(store: ObjectStore) -> None:
    keys = [f"a/{number:04}" for number in range(1001)]
    with ThreadPoolExecutor(8) as pool:  # also: one client, made once, for many threads
        assert all(pool.map(lambda key: store.put(key, b"", if_absent=False), [*keys, "b"]))
    assert list(store.list("a/")) == keys


@pytest.mark.parametrize(
    ("env", "url", "endpoint"),
    [
        ({}, "s3://capi-functions", ""),
        ({"S3_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL": "http://b:2"}, "s3://capi-functions", "http://a:1"),
        ({"S3_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "http://b:2"}, "s3://capi-functions", "http://b:2"),
        ({"CAPI_FUNCTIONS_BUCKET": "mine", "S3_ENDPOINT_URL": "http://u:pw@a:1/x"}, "s3://mine", "http://a:1/x"),
        ({"CAPI_FUNCTIONS_STORE": "s3://b/p", "CAPI_FUNCTIONS_BUCKET": "mine"}, "s3://b/p", ""),
        ({"CAPI_FUNCTIONS_STORE": "gs://b", "S3_ENDPOINT_URL": "http://a:1"}, "gs://b", ""),
        ({"CAPI_FUNCTIONS_DEFAULT_STORE": "file:///a"}, "file:///a", ""),
        ({"CAPI_FUNCTIONS_DEFAULT_STORE": "file:///a", "CAPI_FUNCTIONS_BUCKET": "mine"}, "s3://mine", ""),
        (
            {"CAPI_FUNCTIONS_DEFAULT_STORE": "file:///a", "S3_ENDPOINT_URL": "http://a:1"},
            "s3://capi-functions",
            "http://a:1",
        ),
        ({"CAPI_FUNCTIONS_DEFAULT_STORE": "file:///a", "CAPI_FUNCTIONS_STORE": "s3://b"}, "s3://b", ""),
    ],
)
def test_settings_select_the_store(env: dict[str, str], url: str, endpoint: str) -> None:
    store = ObjectStore.from_env(env)
    assert (store.url, store.endpoint) == (url, endpoint)


def test_object_larger_than_expected_counts_as_absent(store: ObjectStore) -> None:
    store.put("k", b"12345", if_absent=False)
    assert store.get("k", 5) == b"12345"
    assert store.get("k", 4) is None


def test_listing_that_is_too_long_is_an_error(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MAX_LISTED", 2)
    for key in "abc":
        store.put(f"a/{key}", b"", if_absent=False)
    with pytest.raises(StorageError, match="it has more than 2 objects"):
        store.list("a/")


@pytest.mark.parametrize("key", ["a/../b", "a//b", "../b"])
def test_key_that_leaves_the_store_is_an_error(store: ObjectStore, key: str) -> None:
    with pytest.raises(StorageError, match="this is not a key"):
        store.put(key, b"", if_absent=False)


def test_folder_is_private_and_made_when_needed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    store = ObjectStore(folder.as_uri())
    assert store.is_folder
    assert store.get("k") is None
    assert store.put("k/l", b"v", if_absent=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "k" / "l").read_bytes() == b"v"


def test_emptied_folder_is_written_again(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path.as_uri())
    store.put("k/l", b"v", if_absent=True)
    wipe(tmp_path)
    assert store.list() == ()
    assert store.put("k/l", b"v", if_absent=True)


def test_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write 'k' in folder .*check CAPI_FUNCTIONS_STORE"):
        ObjectStore((tmp_path / "file").as_uri()).put("k", b"", if_absent=True)


@pytest.mark.parametrize("url", ["ftp://b", "s3://", "s3://b?x", "b", "file://relative", "s3://a b"])
def test_url_of_no_store_is_an_error(url: str) -> None:
    with pytest.raises(StorageError, match="check CAPI_FUNCTIONS_STORE"):
        ObjectStore(url, KEYS).get("k")


def test_google_cloud_gets_the_requests(object_store: ObjectStore) -> None:
    with HttpServer(lambda _: Response(403)) as site:
        key = {
            "gcs_base_url": site.url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        store = ObjectStore("gs://mine/p", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)})
        with pytest.raises(StorageError, match=r"'k' in bucket 'mine' at Google Cloud Storage: HTTP 403: check CAPI_"):
            store.get("k")
        assert [request.path for request in site.requests] == ["/mine/p%2Fk"]


def test_azure_gets_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer(lambda _: Response(409)) as site:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", site.url)
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        settings = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
        store = ObjectStore("az://mine/p", settings)
        with pytest.raises(StorageError):
            store.get("k")
        [request] = site.requests
        assert request.path == "/mine/p/k"
        assert (request.authorization or "").startswith("SharedKey account:")


def test_boto3_is_not_imported_where_the_settings_have_keys(object_store: ObjectStore) -> None:
    """It takes 10 MiB of each process, with a client for S3 20. The bucket is created, too."""
    code = (
        "import sys, shared.storage as s; s.ObjectStore.from_env().put('k', b'', if_absent=False);"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    bucket = {"CAPI_FUNCTIONS_BUCKET": f"absent-{uuid.uuid4().hex[:8]}"}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **bucket})


@pytest.fixture
def failing(object_store: ObjectStore) -> Iterator[Failing]:
    """Start a server that gives every request the same answer; returns its address."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(status: int, code: str) -> str:
        body = f"<Error><Code>{code}</Code><Message>key AKIA12345 is no good</Message></Error>".encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (500, "InternalError", True),
        (503, "SlowDown", True),
        (502, "", True),
        (429, "TooManyRequests", True),
        (409, "ConditionalRequestConflict", True),
        (400, "RequestTimeout", True),
        (403, "AccessDenied", False),
        (403, "InvalidAccessKeyId", False),
        (501, "NotImplemented", False),
    ],
)
def test_error_of_the_server_decides_whether_to_retry(
    failing: Failing, status: int, code: str, transient: bool
) -> None:
    url = failing(status, code)
    with pytest.raises(StorageError) as caught:
        at(url).get("some/key")
    assert isinstance(caught.value, StorageUnavailable) == transient
    message = str(caught.value)
    assert all(part in message for part in ("'some/key'", "'bucket'", url, str(status), code))
    assert "AKIA12345" not in message


def test_answer_that_is_no_listing_is_an_error() -> None:
    with (
        HttpServer(lambda _: Response(body=b"<html><br>Log in</html>")) as site,
        pytest.raises(StorageError, match="does not answer like an object store: check S3_ENDPOINT_URL"),
    ):
        at(site.url).list("")


def test_bucket_in_another_region_is_an_error(failing: Failing) -> None:
    with pytest.raises(StorageError, match="the bucket is elsewhere: set AWS_DEFAULT_REGION") as caught:
        at(failing(301, "PermanentRedirect")).get("k")
    assert not isinstance(caught.value, StorageUnavailable)


def test_refused_connection_is_transient(object_store: ObjectStore) -> None:
    with listen() as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        StorageUnavailable, match=f"'k' in bucket 'bucket' at http://127.0.0.1:{port}: connection refused"
    ):
        at(f"http://user:pass@127.0.0.1:{port}").put("k", b"", if_absent=True)


def test_host_that_does_not_answer_ends_at_the_timeout(object_store: ObjectStore) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:  # fill the queue: further connections get no answer at all
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        with pytest.raises(StorageUnavailable, match="no answer in time"):
            at(f"http://127.0.0.1:{full.getsockname()[1]}").get("k")
        for client in waiting:
            client.close()


def test_truncated_body_is_transient(object_store: ObjectStore) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        with pytest.raises(StorageUnavailable):
            at(f"http://127.0.0.1:{server.server_port}").get("k")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("endpoint", ["not a url", "ftp://x"])
def test_invalid_endpoint_is_an_error(object_store: ObjectStore, endpoint: str) -> None:
    with pytest.raises(StorageError):
        at(endpoint).get("k")


def test_missing_credentials_are_an_error(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(StorageError, match="there are no access keys: set AWS_ACCESS_KEY_ID and") as caught:
        ObjectStore("s3://bucket").get("k")
    assert "ConfigMap or Secret capi-functions-storage in namespace capi-functions" in str(caught.value)
    assert not isinstance(caught.value, StorageUnavailable)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": ""}, "one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is not set"),
        ({"AWS_CA_BUNDLE": "/nonexistent.pem"}, "AWS_CA_BUNDLE '/nonexistent.pem' cannot be used: no such"),
    ],
)
def test_incomplete_settings_are_an_error(settings: dict[str, str], message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        at("https://127.0.0.1:9", **settings).get("k")
    assert not isinstance(caught.value, StorageUnavailable)


def test_ca_is_not_loaded_for_an_endpoint_without_tls(object_store: ObjectStore) -> None:
    store = at(object_store.endpoint, AWS_CA_BUNDLE="/nonexistent.pem")
    store.put("k", b"v", if_absent=False)
    assert store.get("k") == b"v"


def test_bucket_is_created_in_its_region_at_https(tmp_path: Path) -> None:
    ca = CertificateAuthority.generate("storage")
    pair = ca.issue("storage", ips=["127.0.0.1"], server=True)
    for name, content in {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": ca.cert_pem}.items():
        (tmp_path / name).write_bytes(content)
    created: list[Request] = []

    def answer(request: Request) -> Response:
        if request.path.startswith("/bucket/?"):
            created.append(request)
        absent = Response(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        return Response(headers={"ETag": "x"}) if created else absent

    with HttpServer(answer, tls=tmp_path) as server:
        settings = {"AWS_CA_BUNDLE": str(tmp_path / "ca.crt"), "AWS_DEFAULT_REGION": "eu-west-1", **KEYS}
        store = ObjectStore("s3://bucket/prefix", {"S3_ENDPOINT_URL": server.url, **settings})
        assert store.put("k", b"v", if_absent=False)
    [request] = created
    assert b"<LocationConstraint>eu-west-1</LocationConstraint>" in request.body
    assert "eu-west-1%2Fs3%2Faws4_request" in request.path


def test_changed_settings_take_effect_at_once(object_store: ObjectStore, tmp_path: Path) -> None:
    """In a pod they are mounted files."""
    keys = {"AWS_ACCESS_KEY_ID": "mounted", "AWS_SECRET_ACCESS_KEY": "mounted"}
    values = {"S3_ENDPOINT_URL": "http://127.0.0.1:9", "CAPI_FUNCTIONS_BUCKET": object_store.bucket, **keys}
    for name, value in values.items():
        (tmp_path / name).write_text(value)
    settings = Settings({FOLDER: str(tmp_path)})
    object_store.put("k", b"v", if_absent=False)
    before = ObjectStore.from_env(settings)
    with pytest.raises(StorageUnavailable, match="check S3_ENDPOINT_URL"):
        before.get("k")
    assert ObjectStore.from_env(settings) is before
    (tmp_path / "S3_ENDPOINT_URL").write_text(object_store.endpoint)
    assert ObjectStore.from_env(settings).get("k") == b"v"


def test_clients_use_the_current_settings(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    releases, components = clients.releases, clients.components
    assert (clients.releases, clients.components) == (releases, components)
    monkeypatch.setenv("CAPI_FUNCTIONS_BUCKET", "another")
    assert clients.releases is not releases
    assert clients.components is not components


def test_mounted_credentials_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        keys = {"AWS_ACCESS_KEY_ID": "KEY-OF-FILE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "north"}
        with pytest.raises(StorageError, match="set AWS_ACCESS_KEY_ID"):
            at(f"http://127.0.0.1:{server.server_port}", **keys).get("k")
        server.shutdown()
        thread.join()
    assert "Credential=KEY-OF-FILE/" in sent[0]
    assert "/north/s3/" in sent[0]


def test_slow_store_without_the_object_is_not_unreachable(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SLOW", -1.0)  # every answer
    new = ObjectStore(f"{object_store.url}-slow")
    assert new.get("k") is None
    new.put("k", b"v", if_absent=False)
    assert new.get("k") == b"v"


def test_unreachable_store_is_not_requested_again_at_once(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request would hold a thread for the whole timeout."""
    monkeypatch.setattr(buckets, "CONNECT_TIMEOUT", 0.1)
    monkeypatch.setattr(storage, "SLOW", 0.05)
    monkeypatch.setattr(storage, "PAUSE", 3600.0)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # until the queue is full, and the kernel drops whoever comes
            each.setblocking(False)
            each.connect_ex(address)
        store = at(f"http://127.0.0.1:{address[1]}")
        with pytest.raises(StorageUnavailable, match="no answer in time"):
            store.get("k")
        for each in waiting:
            each.close()
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http.server.HTTPServer.allow_reuse_address = True
    with http.server.HTTPServer(address, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            with pytest.raises(StorageUnavailable, match=r"'other' in bucket 'bucket' .* no answer in time"):
                store.get("other")
            assert asked == []
            monkeypatch.setattr(store, "_unreachable", (0.0, ""))
            assert store.get("other") is None
        finally:
            server.shutdown()
            thread.join()
