"""Fixtures for tests on real parts: one management API server a session, a fresh namespace a test."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from infra import local_control_plane
from infra.local.helm import helm as find_helm
from infra.local_control_plane.binaries import locate
from shared.api.resources import NAMESPACE
from shared.clients import Clients
from shared.kube import Client, connect
from tests.support.planes import running_plane

pytest_plugins = [
    "tests.support.processes",
    "tests.support.seeds",
    "tests.support.scheduling",
    "tests.support.object_store",
    "tests.support.api_proxy",
    "tests.support.world",
    "tests.support.stacks",
    "tests.support.helm_releases",
    "tests.support.registry",
    "tests.support.provider_world",
    "tests.support.fake_provider",
    "tests.support.provider_commands",
    "tests.support.controllers",
    "tests.support.documents",
    "tests.support.browser",
]


os.environ.pop("KUBERNETES_SERVICE_HOST", None)  # tests that run in a pod use its loopback, as a local run does


def pytest_collection_finish() -> None:
    """Looking for garbage costs a tenth of the unit tests' time, mostly among collected tests, which stay anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def commands_are_built_once() -> Iterator[None]:
    """Typer's test runner builds all commands at each call, for 40 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running control plane with our CRDs; ends with the session, however that ends."""
    with running_plane(tmp_path_factory.mktemp("plane") / "management") as folder:
        yield folder


@pytest.fixture(scope="session")
def helm() -> Path:
    """The helm program, found as the command line finds it."""
    return find_helm(print)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    found = shutil.which("kubectl")
    return Path(found) if found else locate(["kubectl"], progress=print)["kubectl"]


@pytest.fixture(scope="session")
def kubeconfig(plane: Path) -> Path:
    return local_control_plane.kubeconfig(plane)


@pytest.fixture
def management(kubeconfig: Path) -> Iterator[Client]:
    client = connect.from_kubeconfig(str(kubeconfig))
    yield client
    client.close()


@pytest.fixture
def clients(management: Client) -> Clients:
    return Clients(management)


@pytest.fixture
def namespace(management: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
