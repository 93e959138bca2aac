"""One real node for the tests of a file; where the machine cannot run one, they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from infra.node import images, programs
from infra.node.node import Node
from infra.node.requirements import missing
from shared.kube import Client, connect
from tests.support import node_images
from tests.support.audit import AuditLog
from tests.support.node_installation import NAMESPACE, Installation, installation, measured


@pytest.fixture(scope="session")
def able() -> None:
    """Skips the tests where the machine cannot run a node."""
    if problems := missing():
        pytest.skip(" ".join(problems))
    programs.prepare(print)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit") / "audit.log", NAMESPACE)


@pytest.fixture(scope="module")
def prepared(
    able: None, audit: AuditLog, kubectl: Path, helm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A node with DNS and the image; an object store, a workload cluster; none of our objects yet."""
    dns, ours = images.of_program("localhost/coredns:1", "coredns", print), node_images.archive()
    folder = tmp_path_factory.mktemp("node")
    with ExitStack() as cleanup:
        with measured("node Ready"):
            node = cleanup.enter_context(Node(folder / "node", apiserver_flags=audit.flags()))
        prepared = cleanup.enter_context(installation(node, kubectl, helm, folder))
        with measured("images of DNS and functions imported"):
            for archive in (dns, ours):
                node.import_image(archive)
        prepared.kube("apply", "--server-side", "-f", str(Path(images.__file__).with_name("dns.yaml")))
        yield prepared


@pytest.fixture(scope="module")
def installed(prepared: Installation) -> Installation:
    """The same with the kinds that installations with Knative need before; no functions yet."""
    prepared.install_crds()
    return prepared


@pytest.fixture
def workload(prepared: Installation) -> Iterator[Client]:
    """The workload cluster."""
    with closing(connect.from_kubeconfig(str(prepared.workload))) as client:
        yield client
