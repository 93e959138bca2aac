"""The issuer of certificates: a resumed installation keeps the issuer that it began with."""

from __future__ import annotations

import pytest

from functions.provider_install.observe import Observed, has_cert_manager
from shared.applier.inventory import InventoryEntry
from shared.clients import Clients
from shared.kube import Client, Object, Unavailable
from shared.kube.credentials import Credentials

BEGUN: Object = {"status": {"target": {"inputs": "digest"}}}
DEPLOYMENT = InventoryEntry("apps", "v1", "Deployment", "space", "manager")
CERTIFICATE = InventoryEntry("cert-manager.io", "v1", "Certificate", "space", "serving")


@pytest.fixture
def nobody() -> Clients:
    """Returns clients of an address where no server listens."""
    return Clients(Client(Credentials("http://127.0.0.1:9"), attempts=1))


@pytest.mark.parametrize(("known", "found"), [((DEPLOYMENT, CERTIFICATE), True), ((DEPLOYMENT,), False)])
def test_resumed_installation_keeps_its_certificate_issuer(
    nobody: Clients, known: tuple[InventoryEntry, ...], found: bool
) -> None:
    assert has_cert_manager(nobody, Observed(BEGUN, digest="digest", inventory=known)) is found


@pytest.mark.parametrize(
    "observed",
    [Observed(BEGUN, digest="another", inventory=(DEPLOYMENT,)), Observed(BEGUN, digest="digest")],
    ids=["an upgrade", "nothing on record"],
)
def test_new_installation_discovers_cert_manager(nobody: Clients, observed: Observed) -> None:
    with pytest.raises(Unavailable):
        has_cert_manager(nobody, observed)
