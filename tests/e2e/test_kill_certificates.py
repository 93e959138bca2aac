"""The functions are killed at writes of a Cluster's certificates: the end is always the same, and no key is lost.

They are generated on request. The kubeconfig is renewed since its CA changes, since it expires, and since the endpoint
changes; the other certificates stay. Then the Cluster is deleted.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from functions.kubeconfig.admin_kubeconfig import create_admin_kubeconfig
from shared.api.conditions import get_condition
from shared.api.names import CERTIFICATES_ANNOTATION, kubeconfig_secret_of
from shared.api.resources import CLUSTER, NAMESPACE, SECRET
from shared.certificates import CertificateAuthority, fingerprints
from shared.event import change_event
from shared.kube import Client, Key, Object, connect, deleting, dig
from shared.kube.credentials import Credentials
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""), (False, "deletion"))
KEPT = ("etcd", "proxy", "sa", "apiserver-etcd-client")
PORT = 9  # no server answers here


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 4)


class Journey:
    """The certificates of one Cluster, in a namespace of its own with a Secret of a user."""

    def __init__(self, functions: KillableFunctions, client: Client) -> None:
        self.functions, self.client = functions, client
        self.key = Key(f"kill-{uuid.uuid4().hex[:8]}", "demo")

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.functions.while_down = lambda: self.delete() if point and point.meanwhile == "deletion" else None
        self.functions.kill_at(point)
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.key.namespace))
        theirs = objects.secret("theirs", self.key.namespace, value="x")
        theirs["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": "demo"}
        theirs = self.client.create(SECRET, theirs, manager="user")
        metadata = {"annotations": {CERTIFICATES_ANNOTATION: ", ".join(("ca", *KEPT))}}
        spec = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": PORT}}
        body = objects.manifest(CLUSTER, "demo", self.key.namespace, metadata=metadata, spec=spec)
        self.client.create(CLUSTER, body, manager="user")
        self.until(lambda: self.is_accepted(), "the first certificates")
        first = {} if self.deleted() else self.kept()
        for step in (self.rotate, self.expire, self.move):
            if not self.deleted():
                step()
        if not self.deleted():
            assert self.kept() == first
            self.delete()
        until(lambda: self.client.find(CLUSTER, self.key) is None, "the end", pause=0, between=self.turn)
        [left] = self.client.list(SECRET, self.key.namespace)
        assert left["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
        return self.functions.end()

    # -- what changes ------------------------------------------------------------------------------------------------

    def rotate(self) -> None:
        newer = CertificateAuthority.generate("newer")
        data = {"tls.crt": newer.cert_pem, "tls.key": newer.key_pem}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        self.client.patch(SECRET, self.of("ca"), {"data": encoded}, manager="user")
        self.until(lambda: self.is_accepted() and self.credentials().ca == newer.cert_pem, "another CA")

    def expire(self) -> None:
        until_soon = datetime.now(UTC) + timedelta(days=1)
        old = create_admin_kubeconfig("demo", f"https://127.0.0.1:{PORT}", self.ca(), until=until_soon)
        data = {"value": base64.b64encode(old).decode()}
        self.client.patch(SECRET, kubeconfig_secret_of(self.key), {"data": data}, manager="user")
        self.until(lambda: self.is_accepted() and self.expiry() > until_soon + timedelta(days=300), "another year")

    def move(self) -> None:
        patch = {"spec": {"controlPlaneEndpoint": {"host": "localhost"}}}
        self.client.patch(CLUSTER, self.key, patch, manager="user")
        wanted = f"https://localhost:{PORT}"
        self.until(lambda: self.is_accepted() and self.credentials().host == wanted, "another endpoint")

    def delete(self) -> None:
        self.client.delete(CLUSTER, self.key)

    # -- events ------------------------------------------------------------------------------------------------------

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Waits until that is reached, or the Cluster is deleted."""
        until(lambda: self.deleted() or reached(), what, pause=0, between=self.turn, details=self.condition)

    def turn(self) -> None:
        cluster = self.client.find(CLUSTER, self.key)
        for name in ("cluster", "kubeconfig") if cluster else ():
            self.functions.deliver(name, change_event(cluster or {}, "update", source="/test"))
        for secret in list(self.client.list(SECRET, self.key.namespace)):
            whole = {**secret, "apiVersion": SECRET.api_version, "kind": SECRET.kind}
            self.functions.deliver("kubeconfig", change_event(whole, "update", source="/test", reference=True))

    # -- what is there then ------------------------------------------------------------------------------------------

    def deleted(self) -> bool:
        found = self.client.find(CLUSTER, self.key)
        return found is None or deleting(found)

    def is_accepted(self) -> bool:
        """Returns whether the kubeconfig is of the CA, and the condition describes the kubeconfig."""
        if self.client.find(SECRET, kubeconfig_secret_of(self.key)) is None:
            return False
        ca, found = self.ca(), self.credentials()
        described = f"Valid until {self.expiry():%Y-%m-%dT%H:%M:%SZ} for {found.host}"
        is_signed = ca.has_issued(found.certificate) and fingerprints(found.ca) == ca.fingerprints
        return is_signed and (self.condition() or {}).get("message") == described

    def credentials(self) -> Credentials:
        secret = self.client.get(SECRET, kubeconfig_secret_of(self.key))
        return connect.inline_credentials(base64.b64decode(secret["data"]["value"]))

    def expiry(self) -> datetime:
        return x509.load_pem_x509_certificate(self.credentials().certificate).not_valid_after_utc

    def ca(self) -> CertificateAuthority:
        data = self.client.get(SECRET, self.of("ca"))["data"]
        return CertificateAuthority.load(*(base64.b64decode(data[name]) for name in ("tls.crt", "tls.key")))

    def kept(self) -> dict[str, Object]:
        """Returns the data of the certificates that are never renewed, and asserts that there are no others."""
        secrets = {one["metadata"]["name"]: one["data"] for one in self.client.list(SECRET, self.key.namespace)}
        assert set(secrets) == {"theirs", *(f"demo-{one}" for one in ("ca", "kubeconfig", *KEPT))}
        return {one: secrets[f"demo-{one}"] for one in KEPT}

    def of(self, purpose: str) -> Key:
        return Key(self.key.namespace, f"demo-{purpose}")

    def condition(self) -> Object | None:
        conditions = dig(self.client.find(CLUSTER, self.key), "status.conditions", [])
        return get_condition(conditions, "KubeconfigAvailable")


@pytest.mark.timeout(3600)
def test_certificates_end_the_same_when_functions_are_killed_at_a_write(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=4)
