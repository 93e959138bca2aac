"""The process of the local object store (`infra.object_store`)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import boto3
import pytest

from infra.object_store import HOST, ObjectStoreError, listen, start, wait_ready
from shared.s3 import Keys
from shared.storage import ObjectStore, StorageAccess, StorageUnavailable
from tests.support.until import until


def test_stop_ends_the_process() -> None:
    server = start()
    wait_ready(server.url)
    server.stop()
    assert server.process.returncode == -signal.SIGTERM
    with pytest.raises(TimeoutError):
        wait_ready(server.url, timeout=0.2)


def test_server_that_ended_is_not_waited_for() -> None:
    server = start()
    server.process.kill()
    with pytest.raises(ObjectStoreError, match=r"ended with status -9; .* `capi-functions doctor`"):
        server.wait_ready()
    server.stop()


def test_process_ends_with_its_parent() -> None:
    code = "import infra.object_store as o, os; s = o.start(); print(s.process.pid, flush=True); os._exit(1)"
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    child = int(parent.stdout)
    until(lambda: not _runs(child), "the end of the server")


def test_port_of_the_command_line_is_used() -> None:
    with listen() as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "infra.object_store", "--port", str(port)])
    try:
        wait_ready(f"http://{HOST}:{port}")
    finally:
        process.terminate()
        process.wait()


def test_port_in_use_is_an_error() -> None:
    with listen() as listener, pytest.raises(OSError, match="in use"):
        start(listener.getsockname()[1])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], ObjectStore]]:
    """Starts the server anew, which keeps its objects in one directory, and returns a store of one bucket."""
    running: list[subprocess.Popen[bytes]] = []

    def end() -> None:
        while running:
            running[-1].kill()
            running.pop().wait()

    def start_anew() -> ObjectStore:
        end()
        with listen() as listener:
            command = [sys.executable, "-m", "infra.object_store", "--fd", str(listener.fileno())]
            options = ["--directory", str(tmp_path / "objects")]
            running.append(subprocess.Popen([*command, *options], pass_fds=[listener.fileno()]))
            url = f"http://{HOST}:{listener.getsockname()[1]}"
        wait_ready(url)
        return ObjectStore("kept", url, StorageAccess(Keys("test", "test")))

    yield start_anew
    end()


CONTENTS = {
    "releases/a b/ü.json": b"{}",
    "a..b": b"dots",
    "a.part": b"part",
    "a": b"",
    "large": bytes(range(256)) * 4096,
}


def test_objects_in_a_directory_outlive_the_server(serve: Callable[[], ObjectStore], tmp_path: Path) -> None:
    store = serve()
    store.ensure_bucket()
    for key, content in CONTENTS.items():
        assert store.put(key, content, if_absent=True)
    store.put("changed", b"first", if_absent=False)
    store.put("changed", b"second", if_absent=False)
    store.put("deleted", b"", if_absent=False)
    store.delete("deleted")
    (tmp_path / "objects" / "kept" / "interrupted.part").write_bytes(b"half")
    for _ in range(2):
        store = serve()
        assert {key: store.get(key) for key in store.list()} == CONTENTS | {"changed": b"second"}
        assert not store.put("changed", b"third", if_absent=True)
    store.delete("changed")
    access = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=store.endpoint, **access)
    client.delete_objects(Bucket="kept", Delete={"Objects": [{"Key": "a"}, {"Key": "large"}]})
    assert set(serve().list()) == set(CONTENTS) - {"a", "large"}
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == []


def test_refused_writes_leave_no_files(serve: Callable[[], ObjectStore], tmp_path: Path) -> None:
    url = serve().endpoint or ""
    for path in ("/none/a", "/..%2Fb/a", "/../b"):
        connection = HTTPConnection(url.removeprefix("http://"))
        connection.request("PUT", path, b"x")
        connection.getresponse().read()
        connection.close()
    assert [*(tmp_path / "objects").rglob("*")] == []
    assert [*tmp_path.iterdir()] == [tmp_path / "objects"]


def test_write_that_cannot_be_kept_fails(serve: Callable[[], ObjectStore], tmp_path: Path) -> None:
    store = serve()
    store.ensure_bucket()
    (tmp_path / "objects" / "kept").rmdir()
    (tmp_path / "objects" / "kept").touch()
    with pytest.raises(StorageUnavailable):
        store.put("a", b"", if_absent=False)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
