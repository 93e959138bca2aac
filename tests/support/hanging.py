"""Tests that never end, with every sort of process beside them, for the runs that e2e/test_killed_runs.py kills.

They are not collected, unless by the name of this file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import urllib3

from infra.local.functions_server import FunctionsServer
from shared import sandbox
from shared.storage import ObjectStore
from tests.support import processes

READY = "CAPI_FUNCTIONS_TEST_READY"
"""The variable with the folder that gets a file from each test that hangs."""


def hang(name: str) -> None:
    process = processes.start([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(os.environ[READY], name).touch()
    process.wait()


def test_with_servers(kubeconfig: Path, object_store: ObjectStore, tmp_path: Path) -> None:
    functions = FunctionsServer({**os.environ, "KUBECONFIG": str(kubeconfig)}, tmp_path / "functions.log")
    functions.start()
    assert urllib3.request("GET", functions.url, timeout=120.0).status == 200
    sandbox.call("tests.support.sandbox_calls:pid", limits=sandbox.Limits(cpu=60, wall=300.0, memory=256))
    hang("servers")


def test_with_an_object_store(object_store: ObjectStore) -> None:
    processes.run(["sh", "-c", "setsid sleep 3601 &"], check=True)
    hang("object-store")
