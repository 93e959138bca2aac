"""Knative's transport encryption on a real node: events go over TLS alone, and its CA can be replaced.

cert-manager and trust-manager do not run here: the test writes what they would, the Secrets of Knative's Certificates
and the ConfigMap of a trust bundle.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import urllib3
import yaml

from infra.local_control_plane.modules import module_of
from infra.node import knative
from shared.api.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from shared.certificates import CertificateAuthority
from shared.event import PING, Event
from shared.kube import Client, Key, Object, Resource, dig
from shared.runtime import sink
from tests.support.node_addons import Addons
from tests.support.node_installation import NAMESPACE, Installation, measured
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

EVENTING = knative.EVENTING.namespace
BROKER = Resource("eventing.knative.dev", "v1", "Broker", "brokers")
PARTS = "brokers,triggers,pingsources,sinkbindings"
HOST = "broker-ingress.knative-eventing.svc.cluster.local"
BUNDLE = {"networking.knative.dev/trust-bundle": "true"}


@pytest.fixture(scope="module")
def sources() -> Path:
    """The files of Knative Eventing."""
    return module_of("eventing-controller").source("knative.dev/eventing", print)


def documents(*files: Path) -> list[Object]:
    return [obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj]


def issued(ca: CertificateAuthority, sources: Path, *, names_ca: bool) -> list[Object]:
    """Returns the Secrets of all Certificates of Knative; `names_ca`: with the CA, as for a private one."""
    secrets = []
    for certificate in documents(*sorted((sources / "config").rglob("*-tls-certificate.yaml"))):
        spec = certificate["spec"]
        pair = ca.issue(spec["dnsNames"][0], dns=spec["dnsNames"], server=True)
        values = {"tls.crt": pair.cert_pem.decode(), "tls.key": pair.key_pem.decode()}
        if names_ca:
            values["ca.crt"] = ca.cert_pem.decode()
        obj = secret(spec["secretName"], EVENTING, **values)
        obj["metadata"]["labels"] = spec["secretTemplate"]["labels"]
        secrets.append(obj)
    assert len(secrets) >= 3
    return secrets


def trusting(ca: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.cert_pem.decode())


def trusts_bundle(deployment: Object) -> bool:
    """Returns whether the SinkBinding gives the pods a trust bundle and no other CA, or does not bind them."""
    [container] = dig(deployment, "spec.template.spec.containers")
    variables = {entry["name"] for entry in container.get("env", [])}
    mounts = {mount["mountPath"] for mount in container.get("volumeMounts", [])}
    return "K_SINK" not in variables or (str(sink.AUTHORITIES) in mounts and "K_CA_CERTS" not in variables)


def test_events_are_encrypted(prepared: Installation, workload: Client, sources: Path) -> None:
    client = prepared.client
    prepared.install_knative(knative.EVENTING)
    kinds = documents(sources / "third_party/cert-manager/01-cert-manager.yaml")
    prepared.apply([obj for obj in kinds if obj["metadata"]["name"] == "certificates.cert-manager.io"])
    prepared.kube("wait", "--for=condition=Established", "crd", "certificates.cert-manager.io", "--timeout=60s")
    first = CertificateAuthority.generate("first")
    prepared.apply(issued(first, sources, names_ca=True))
    client.patch(CONFIG_MAP, Key(EVENTING, "config-features"), {"data": {"transport-encryption": "strict"}})
    prepared.kube("create", "namespace", NAMESPACE)
    prepared.apply([secret("capi-functions-storage", NAMESPACE, **KEYS)])
    with measured("release with transport encryption Ready"):
        prepared.release(profile="standalone", mode="forwarder")
        prepared.kube("wait", "--for=condition=Ready", "--all", "-n", NAMESPACE, "--timeout=300s", PARTS)

    def address() -> Object:
        return dig(client.get(BROKER, Key(NAMESPACE, NAMESPACE)), "status.address", {})

    assert address()["url"].startswith("https://")
    assert address()["CACerts"] == first.cert_pem.decode()
    addons = Addons(prepared, "encrypted", workload)
    with measured("first addons Ready"):
        addons.wants(kept="1")
    with measured("upgrade"):
        addons.wants(kept="2")

    headers, body = Event(type=PING, source="/host", id="1", data={}).to_http()
    ingress = dig(client.get(SERVICE, Key(EVENTING, "broker-ingress")), "spec.clusterIP")
    path = f"/{NAMESPACE}/{NAMESPACE}"
    plain = urllib3.request("POST", f"http://{ingress}{path}", headers=headers, body=body, retries=False)
    assert plain.status == 404, "only TLS is served"
    with urllib3.HTTPSConnectionPool(ingress, ssl_context=trusting(first), server_hostname=HOST) as pool:
        assert pool.request("POST", path, headers=headers, body=body, retries=False).status == 202

    second = CertificateAuthority.generate("second")
    with measured("new CA, in a trust bundle alone"):
        data = {"ca.pem": second.cert_pem.decode()}
        prepared.apply([manifest(CONFIG_MAP, "trusted", EVENTING, metadata={"labels": BUNDLE}, data=data)])
        prepared.apply(issued(second, sources, names_ca=False))
        until(lambda: "CACerts" not in address(), "the Broker names no CA")
        until(lambda: all(map(trusts_bundle, client.list(DEPLOYMENT, NAMESPACE))), "all pods have the bundle alone")
        prepared.until_available(NAMESPACE)
    with measured("upgrade with the new CA"):
        addons.wants(kept="3")
    with measured("deletion"):
        addons.remove()
