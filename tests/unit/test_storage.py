"""Object storage on a real server, and on servers that fail as real ones do."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from infra.object_store import listen
from shared import storage
from shared.clients import Clients
from shared.s3 import Keys
from shared.settings import FOLDER, Settings
from shared.storage import ObjectStore, StorageAccess, StorageError, StorageUnavailable

pytest_plugins = ["tests.support.object_store"]

Failing = Callable[[int, str], str]


def test_object_is_read_as_written(object_store: ObjectStore) -> None:
    data = bytes(range(256)) * 1000
    assert object_store.put("a/b", data, if_absent=False)
    assert object_store.get("a/b") == data
    assert object_store.exists("a/b")


def test_absent_object_is_none(object_store: ObjectStore) -> None:
    assert object_store.get("nope") is None
    assert not object_store.exists("nope")
    object_store.delete("nope")


def test_absent_bucket_reads_as_absent_and_refuses_writes(object_store: ObjectStore) -> None:
    gone = ObjectStore("no-such-bucket", object_store.endpoint)
    assert gone.get("k") is None
    assert not gone.exists("k")
    assert gone.list("") == ()
    gone.delete("k")
    with pytest.raises(StorageError, match="NoSuchBucket"):
        gone.put("k", b"", if_absent=False)
    gone.ensure_bucket()
    gone.ensure_bucket()
    assert gone.put("k", b"", if_absent=False)
    assert gone.get("k") == b""


def test_put_if_absent_keeps_the_first_object(object_store: ObjectStore) -> None:
    assert object_store.put("k", b"first", if_absent=True)
    assert not object_store.put("k", b"second", if_absent=True)
    assert object_store.get("k") == b"first"
    assert object_store.put("k", b"third", if_absent=False)
    assert object_store.get("k") == b"third"


def test_deleted_object_is_absent(object_store: ObjectStore) -> None:
    object_store.put("k", b"x", if_absent=False)
    object_store.delete("k")
    assert not object_store.exists("k")


def test_list_pages_through_everything_under_a_prefix(object_store: ObjectStore) -> None:
    keys = [f"a/{number:04}" for number in range(1001)]
    with ThreadPoolExecutor(8) as pool:  # also: one client, made once, for many threads
        assert all(pool.map(lambda key: object_store.put(key, b"", if_absent=False), [*keys, "b"]))
    assert list(object_store.list("a/")) == keys


@pytest.mark.parametrize(
    ("env", "bucket", "endpoint"),
    [
        ({}, "capi-functions", None),
        ({"S3_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL": "http://b:2"}, "capi-functions", "http://a:1"),
        ({"S3_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "http://b:2"}, "capi-functions", "http://b:2"),
        ({"CAPI_FUNCTIONS_BUCKET": "mine", "S3_ENDPOINT_URL": "http://u:pw@a:1/x"}, "mine", "http://a:1/x"),
    ],
)
def test_settings_select_endpoint_and_bucket(env: dict[str, str], bucket: str, endpoint: str | None) -> None:
    store = ObjectStore.from_env(env)
    assert (store.bucket, store.endpoint) == (bucket, endpoint)


def test_boto3_is_not_imported_where_the_settings_have_keys(object_store: ObjectStore) -> None:
    """It takes 10 MiB of each process."""
    code = (
        "import sys, shared.storage as s; s.ObjectStore.from_env().get('k');"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
        (301, "PermanentRedirect", False),
    ],
)
def test_error_of_the_server_decides_whether_to_retry(
    failing: Failing, status: int, code: str, transient: bool
) -> None:
    url = failing(status, code)
    with pytest.raises(StorageError) as caught:
        ObjectStore("bucket", url).get("some/key")
    assert isinstance(caught.value, StorageUnavailable) == transient
    message = str(caught.value)
    assert all(part in message for part in ("'some/key'", "'bucket'", url, str(status), code))
    assert "AKIA12345" not in message


def test_answer_that_is_no_listing_is_an_error(failing: Failing) -> None:
    with pytest.raises(StorageError, match="does not answer as S3 does: check S3_ENDPOINT_URL"):
        ObjectStore("bucket", failing(200, "NoListing")).list("")


def test_refused_connection_is_transient(object_store: ObjectStore) -> None:
    with listen() as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StorageUnavailable, match=f"'k' in bucket 'b' at http://127.0.0.1:{port}: connection refused"):
        ObjectStore("b", f"http://user:pass@127.0.0.1:{port}").put("k", b"", if_absent=True)


def test_host_that_does_not_answer_ends_at_the_timeout(object_store: ObjectStore) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:  # fill the queue: further connections get no answer at all
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        with pytest.raises(StorageUnavailable, match="no answer in time"):
            ObjectStore("b", f"http://127.0.0.1:{full.getsockname()[1]}").get("k")
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
            ObjectStore("b", f"http://127.0.0.1:{server.server_port}").get("k")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("endpoint", ["not a url", "ftp://x"])
def test_invalid_endpoint_is_an_error(object_store: ObjectStore, endpoint: str) -> None:
    with pytest.raises(StorageError):
        ObjectStore("b", endpoint).get("k")


def test_missing_credentials_are_an_error(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(StorageError, match="there are no access keys: set AWS_ACCESS_KEY_ID and") as caught:
        ObjectStore("b", object_store.endpoint).get("k")
    assert "ConfigMap or Secret capi-functions-storage in namespace capi-functions" in str(caught.value)
    assert not isinstance(caught.value, StorageUnavailable)


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (StorageAccess(Keys("k"), "r"), "one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is not set"),
        (
            StorageAccess(Keys("k", "s"), "r", "/nonexistent.pem"),
            "AWS_CA_BUNDLE '/nonexistent.pem' cannot be used: no such",
        ),
    ],
)
def test_incomplete_settings_are_an_error(access: StorageAccess, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        ObjectStore("b", "https://127.0.0.1:9", access).get("k")
    assert not isinstance(caught.value, StorageUnavailable)


def test_ca_is_not_loaded_for_an_endpoint_without_tls(object_store: ObjectStore) -> None:
    unused = replace(StorageAccess.from_settings(), ca="/nonexistent.pem")
    store = ObjectStore(object_store.bucket, object_store.endpoint, unused)
    store.put("k", b"v", if_absent=False)
    assert store.get("k") == b"v"


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
    (tmp_path / "S3_ENDPOINT_URL").write_text(object_store.endpoint or "")
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
        access = StorageAccess(Keys("KEY-OF-FILE", "secret"), "north")
        with pytest.raises(StorageError, match="set AWS_ACCESS_KEY_ID"):
            ObjectStore("b", f"http://127.0.0.1:{server.server_port}", access).get("k")
        server.shutdown()
        thread.join()
    assert "Credential=KEY-OF-FILE/" in sent[0]
    assert "/north/s3/" in sent[0]
    assert "secret" not in repr(access)


def test_slow_store_without_the_object_is_not_unreachable(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SLOW", -1.0)  # every answer
    new = ObjectStore(f"{object_store.bucket}-slow", object_store.endpoint)
    new.ensure_bucket()
    assert new.get("k") is None
    new.put("k", b"v", if_absent=False)
    assert new.get("k") == b"v"


def test_unreachable_store_is_not_requested_again_at_once(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request would hold a thread for the whole timeout."""
    monkeypatch.setattr(storage, "CONNECT_TIMEOUT", 0.1)
    monkeypatch.setattr(storage, "SLOW", 0.05)
    monkeypatch.setattr(storage, "PAUSE", 3600.0)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # until the queue is full, and the kernel drops whoever comes
            each.setblocking(False)
            each.connect_ex(address)
        store = ObjectStore("b", f"http://127.0.0.1:{address[1]}", StorageAccess(Keys("k", "s"), "r"))
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
            with pytest.raises(StorageUnavailable, match=r"'other' in bucket 'b' .* no answer in time"):
                store.get("other")
            assert asked == []
            monkeypatch.setattr(store, "_unreachable", (0.0, ""))
            assert store.get("other") is None
        finally:
            server.shutdown()
            thread.join()
