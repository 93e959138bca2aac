"""A real OCI registry: Debian's `docker-registry`, one process for each test that uses it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.local_control_plane.processes import spawn
from shared.certificates import CertificateAuthority
from tests.support.ports import free_port

USER, PASSWORD = "robot", "s3cret-word"
_HTPASSWD = "robot:$2b$05$HBzZR.efFgzBUBlUj0/QIuLs3ZD7Fvzxyt7P7odJX1.UFWEomUNna"

StartRegistry = Callable[..., str]
"""Starts a registry with these sections of its configuration; returns its host and port."""


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[StartRegistry]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed (Debian: apt-get install docker-registry)")
    processes: list[subprocess.Popen[bytes]] = []

    def start(**sections: Any) -> str:
        for _ in range(5):  # the port may be taken by another before the registry has it
            port, folder = free_port(), tmp_path / f"registry-{len(processes)}"
            folder.mkdir()
            http = {"addr": f"127.0.0.1:{port}", "secret": "not used"} | sections.get("http", {})
            config = {
                "version": 0.1,
                "log": {"level": "error", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                **sections,
                "http": http,
            }
            (folder / "config.yml").write_text(json.dumps(config))
            arguments = [program, "serve", str(folder / "config.yml")]
            process = spawn(arguments, directory=folder, log=folder / "log", environment={})
            processes.append(process)
            if _answers(port, process):
                return f"127.0.0.1:{port}"
        raise AssertionError(f"docker-registry does not start: {(folder / 'log').read_text()[-2000:]}")

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def registry(start_registry: StartRegistry) -> str:
    """Host and port of a registry without authentication."""
    return start_registry()


def htpasswd(folder: Path) -> dict[str, Any]:
    """The section `auth` for basic authentication as USER with PASSWORD."""
    (folder / "htpasswd").write_text(_HTPASSWD + "\n")
    return {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}


def certificate(folder: Path) -> tuple[dict[str, str], str]:
    """tls.crt and tls.key for 127.0.0.1 in a folder, with their ca.crt: the section `http.tls`, and the CA (PEM)."""
    ca = CertificateAuthority.generate("test CA")
    pair = ca.issue("registry", ips=["127.0.0.1"], server=True)
    (folder / "ca.crt").write_bytes(ca.cert_pem)
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    tls = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
    return tls, ca.cert_pem.decode()


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return process.poll() is None
        except OSError:
            time.sleep(0.02)
    return False
