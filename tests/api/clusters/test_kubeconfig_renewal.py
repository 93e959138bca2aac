"""Kubeconfigs and certificates on a real API server: generated, renewed for each reason, accepted throughout."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from functions import catalog
from functions.kubeconfig.admin_kubeconfig import create_admin_kubeconfig
from functions.sweep.function import not_reconciled
from infra import local_control_plane
from shared.api.names import (
    CERTIFICATES_ANNOTATION,
    REGENERATE_ANNOTATION,
    RENEW_ANNOTATION,
    certificate_secret_of,
    kubeconfig_secret_of,
)
from shared.api.resources import CLUSTER, EVENT, SECRET
from shared.applier.connection import ClusterConnection, ConnectionFailed, connect_workload
from shared.certificates import CertificateAuthority, fingerprints
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Conflict, Key, Object, Resource, connect, dig, key_of, owner_reference
from shared.network import origin
from tests.support import objects

YEAR = timedelta(days=365)


class World:
    """A Cluster whose workload cluster is the management cluster, so that its server judges the credentials."""

    def __init__(self, clients: Clients, namespace: str, plane: Path) -> None:
        self.clients, self.client, self.key = clients, clients.management, Key(namespace, "demo")
        self.ca = local_control_plane.load_ca(plane)
        [server] = connect.inline_credentials(local_control_plane.kubeconfig(plane).read_bytes()).host.split()
        _, host, self.port = origin(server)
        self.create(CLUSTER, spec={"controlPlaneEndpoint": {"host": host, "port": self.port}})
        self.call("cluster", self.cluster)

    def create(self, resource: Resource, **content: object) -> None:
        self.client.create(resource, objects.manifest(resource, self.key.name, self.key.namespace, **content))

    def write_ca(self, ca: CertificateAuthority) -> None:
        secret = objects.secret("demo-ca", self.key.namespace, **{"tls.crt": ca.cert_pem, "tls.key": ca.key_pem})
        secret["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": "demo"}
        self.write(secret)
        self.call("kubeconfig", secret)

    @property
    def cluster(self) -> Object:
        return self.client.get(CLUSTER, self.key)

    @property
    def secret(self) -> Object:
        return self.client.get(SECRET, kubeconfig_secret_of(self.key))

    @property
    def document(self) -> bytes:
        return base64.b64decode(self.secret["data"]["value"])

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(connect.inline_credentials(self.document).certificate)

    @property
    def trusted(self) -> frozenset[bytes]:
        return fingerprints(connect.inline_credentials(self.document).ca)

    def annotate(self, **annotations: str | None) -> None:
        self.client.patch(CLUSTER, self.key, {"metadata": {"annotations": annotations}})

    def write_kubeconfig(self, until: datetime) -> bytes:
        """Writes a generated kubeconfig that expires at `until`, and returns it."""
        document = create_admin_kubeconfig("demo", f"https://127.0.0.1:{self.port}", self.ca, until=until)
        secret = objects.secret("demo-kubeconfig", self.key.namespace, value=document)
        secret["metadata"]["ownerReferences"] = [owner_reference(self.cluster)]
        self.write({**secret, "type": "cluster.x-k8s.io/secret"})
        return document

    def write(self, secret: Object) -> None:
        """Creates the Secret, or replaces its data."""
        if self.client.find(SECRET, key_of(secret)) is None:
            self.client.create(SECRET, secret)
        else:
            self.client.patch(SECRET, key_of(secret), {"data": secret["data"]})

    def call(self, name: str, about: Object, clients: Clients | None = None, *, resync: bool = False) -> None:
        is_secret = about["kind"] == SECRET.kind
        event = change_event(about, "update", source="/test", reference=is_secret, resync=resync)
        answer = catalog.handler(name)(clients or self.clients, event)
        assert answer.status == 204, answer

    def sweep(self) -> bool:
        """Calls `kubeconfig` if the sweep finds something to do, and returns whether it does."""
        found = bool(list(not_reconciled([self.cluster], datetime.now(UTC), [catalog.triggers()["kubeconfig"]])))
        if found:
            self.call("kubeconfig", self.cluster)
        return found

    def condition(self) -> Object:
        return objects.condition(self.cluster, "KubeconfigAvailable")

    def check(self) -> None:
        """Asserts that the server accepts the credentials, that the condition tells of them, and that all is done."""
        assert isinstance(connect_workload(self.clients, self.key), ClusterConnection)
        expiry = self.certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
        server = connect.inline_credentials(self.document).host
        assert self.condition()["message"] == f"Valid until {expiry} for {server}"
        assert not self.sweep()

    def event_reasons(self) -> list[str]:
        found = self.client.list(EVENT, self.key.namespace)
        return sorted(one["reason"] for one in found if one["reason"].startswith("Kubeconfig"))


def check_convention(secret: Object, cluster: Object, *names: str) -> None:
    """Asserts that the Secret has these data, and all else that Cluster API's convention requires."""
    assert secret["type"] == "cluster.x-k8s.io/secret"
    assert secret["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    [reference] = secret["metadata"]["ownerReferences"]
    assert reference == owner_reference(cluster)
    assert "controller" not in reference
    assert sorted(secret["data"]) == sorted(names)


def besides_value(secret: Object) -> Object:
    """Returns what a renewal leaves as it is: all but the value, and what the server notes of a write."""
    metadata = {name: value for name, value in secret["metadata"].items() if name != "managedFields"}
    data = {name: value for name, value in secret["data"].items() if name != "value"}
    return {**secret, "metadata": {**metadata, "resourceVersion": ""}, "data": data}


@pytest.fixture
def world(clients: Clients, namespace: str, plane: Path) -> World:
    return World(clients, namespace, plane)


def test_kubeconfig_is_renewed_for_each_reason_and_accepted_throughout(world: World) -> None:
    world.write_ca(world.ca)
    world.check()
    now = datetime.now(UTC)
    assert abs(world.certificate.not_valid_after_utc - now - YEAR) < timedelta(hours=1)
    check_convention(world.secret, world.cluster, "value")

    before = world.certificate
    mine = {"metadata": {"labels": {"mine": "x"}}, "data": {"mine": "eA=="}}
    old_secret = world.client.patch(SECRET, kubeconfig_secret_of(world.key), mine)
    world.annotate(**{REGENERATE_ANNOTATION: ""})
    assert world.sweep()
    assert world.certificate.serial_number != before.serial_number
    assert besides_value(world.secret) == besides_value(old_secret)
    assert REGENERATE_ANNOTATION not in dig(world.cluster, "metadata.annotations", {})
    world.check()

    old = world.write_kubeconfig(now + timedelta(days=9))
    world.annotate(**{RENEW_ANNOTATION: "7"})
    world.call("kubeconfig", world.secret)
    assert world.document == old, "it is not due"
    world.check()
    world.annotate(**{RENEW_ANNOTATION: "10"})
    assert world.sweep()
    assert world.certificate.not_valid_after_utc > now + timedelta(days=300)
    world.check()

    world.client.patch(CLUSTER, world.key, {"spec": {"controlPlaneEndpoint": {"host": "localhost"}}})
    world.call("cluster", world.cluster)
    assert world.sweep()
    assert connect.inline_credentials(world.document).host == f"https://localhost:{world.port}"
    world.check()

    newer = CertificateAuthority.generate("newer")
    world.write_ca(CertificateAuthority(newer.cert_pem + world.ca.cert_pem, world.ca.key_pem))
    assert world.trusted == newer.fingerprints | world.ca.fingerprints
    world.check()
    world.write_ca(newer)
    assert world.trusted == newer.fingerprints
    assert world.event_reasons() == ["KubeconfigGenerated", *["KubeconfigRenewed"] * 4], "both CAs count for one event"


def test_certificates_are_generated_once_and_follow_the_convention_of_cluster_api(world: World) -> None:
    world.annotate(**{CERTIFICATES_ANNOTATION: "ca etcd proxy sa apiserver-etcd-client"})
    world.call("kubeconfig", world.cluster)
    purposes = ("ca", "etcd", "proxy", "sa", "apiserver-etcd-client")
    assert objects.condition(world.cluster, "CertificatesAvailable")["message"] == ", ".join(purposes)

    secrets = [world.client.get(SECRET, certificate_secret_of(world.key, purpose)) for purpose in purposes]
    parts = {}
    for purpose, secret in zip(purposes, secrets, strict=True):
        check_convention(secret, world.cluster, "tls.crt", "tls.key")
        parts[purpose] = [base64.b64decode(secret["data"][name]) for name in ("tls.crt", "tls.key")]
    authorities = {one: CertificateAuthority.load(*parts[one]) for one in ("ca", "etcd", "proxy")}
    assert all(one.expires > datetime.now(UTC) + timedelta(days=3640) for one in authorities.values())
    public, private = parts["sa"]
    assert b"BEGIN PUBLIC KEY" in public
    assert serialization.load_pem_private_key(private, None).public_key() == serialization.load_pem_public_key(public)
    client = x509.load_pem_x509_certificate(parts["apiserver-etcd-client"][0])
    client.verify_directly_issued_by(x509.load_pem_x509_certificate(parts["etcd"][0]))
    assert client.not_valid_after_utc == authorities["etcd"].expires
    assert world.trusted == authorities["ca"].fingerprints

    world.client.patch(CLUSTER, world.key, {"status": {"conditions": None}}, subresource="status")
    world.call("kubeconfig", world.cluster)
    assert objects.condition(world.cluster, "CertificatesAvailable")["status"] == "True", "they were looked up again"
    assert [world.client.get(SECRET, key_of(secret)) for secret in secrets] == secrets


def test_expired_kubeconfig_is_replaced_at_the_next_sweep_and_addons_connect_again(world: World) -> None:
    world.write_ca(world.ca)
    world.check()
    world.write_kubeconfig(datetime.now(UTC) - timedelta(seconds=1))
    assert isinstance(connect_workload(world.clients, world.key), ConnectionFailed)
    world.annotate(**{RENEW_ANNOTATION: "0"})
    world.call("kubeconfig", world.secret)
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "Expired")
    world.annotate(**{RENEW_ANNOTATION: None})
    assert world.sweep()
    world.check()


def test_kubeconfig_of_a_user_is_reported_and_left_alone(world: World) -> None:
    pair = world.ca.issue("someone", valid_for=timedelta(days=9))
    document = yaml.safe_load(
        create_admin_kubeconfig(
            "x", f"https://127.0.0.1:{world.port}", world.ca, until=datetime.now(UTC) + timedelta(days=1)
        )
    )
    credentials = {"client-certificate-data": pair.cert_pem, "client-key-data": pair.key_pem}
    document["users"][0]["user"] = {name: base64.b64encode(value).decode() for name, value in credentials.items()}
    mine = objects.secret("demo-kubeconfig", world.key.namespace, value=yaml.safe_dump(document))
    world.client.create(SECRET, mine)
    world.write_ca(world.ca)
    assert world.condition()["reason"] == "Expires"
    assert world.secret["data"] == mine["data"]
    assert not world.sweep()
    world.client.patch(SECRET, kubeconfig_secret_of(world.key), {"data": {"value": base64.b64encode(b"{}").decode()}})
    world.call("kubeconfig", world.secret)
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "InvalidKubeconfig")
    assert not world.sweep()
    world.client.delete(SECRET, kubeconfig_secret_of(world.key))
    world.call("kubeconfig", mine)
    world.check()


def test_of_two_renewals_at_once_the_second_finds_it_done(
    world: World, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write_ca(world.ca)
    world.annotate(**{REGENERATE_ANNOTATION: ""})
    client, refused = connect.from_kubeconfig(str(kubeconfig)), []
    send, first = client.request, [True]

    def request(method: str, path: str, **options: object) -> Object:
        if method == "PATCH" and first:
            first.clear()
            world.call("kubeconfig", world.cluster)
        try:
            return send(method, path, **options)
        except Conflict:
            refused.append(path.rpartition("/")[2])
            raise

    monkeypatch.setattr(client, "request", request)
    world.call("kubeconfig", world.cluster, Clients(client))
    assert refused == ["demo-kubeconfig"]
    assert world.event_reasons() == ["KubeconfigGenerated", "KubeconfigRenewed"]
    world.check()
    client.close()


def test_cluster_of_a_live_core_is_left_to_core_and_one_event_of_each_function_says_so(world: World) -> None:
    seen = {"type": "Available", "status": "True", "reason": "Available", "message": "", "observedGeneration": 1}
    seen |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    world.client.patch(CLUSTER, world.key, {"status": None}, subresource="status")
    status = {"conditions": [seen], "phase": "Provisioned", "observedGeneration": 1}
    world.client.patch(CLUSTER, world.key, {"status": status}, subresource="status", manager="core")
    world.write_ca(world.ca)
    assert world.client.find(SECRET, kubeconfig_secret_of(world.key)) is None
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "ManagedByClusterAPI")
    world.write_kubeconfig(datetime.now(UTC) + timedelta(days=90))  # as core does
    for _look in range(2):
        for name in ("cluster", "kubeconfig"):
            world.call(name, world.cluster, resync=True)
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "ManagedByClusterAPI")
    assert [one["type"] for one in dig(world.cluster, "status.conditions")] == ["Available", "KubeconfigAvailable"]
    reported = [one for one in world.client.list(EVENT, world.key.namespace) if one["reason"] == "ManagedByClusterAPI"]
    assert sorted(one["count"] for one in reported if "functions leave it to core" in one["message"]) == [1]
    world.annotate(**{RENEW_ANNOTATION: "182"})
    assert world.sweep()
    world.check()


@pytest.mark.parametrize("renewed", [False, True], ids=["kept", "renewed"])
def test_kubeconfig_of_an_older_version_is_kept_until_it_is_renewed(
    clients: Clients, namespace: str, plane: Path, renewed: bool
) -> None:
    """Older versions had one field manager for all writes, so it has the Secret and the condition."""
    world = World(clients, namespace, plane)
    world.write_ca(world.ca)
    for resource, key in ((CLUSTER, world.key), (SECRET, kubeconfig_secret_of(world.key))):
        objects.give_to_older_version(world.client, resource, key)
    before = world.document
    if renewed:
        world.annotate(**{REGENERATE_ANNOTATION: ""})
    for name in ("cluster", "kubeconfig"):
        world.call(name, world.cluster, resync=True)
    assert (world.document != before) is renewed
    world.check()
