"""Serving certificates of providers: issued by cert-manager if it is installed, else here, and renewed in time."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest

from infra.local import crds
from shared.api.provider import CORE
from shared.api.resources import SECRET
from shared.certificates import CertificateAuthority
from shared.kube import Key, Object, Resource, dig
from shared.kube.crds import CRD
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import WEBHOOKS, whole
from tests.support.provider_world import Providers

CERTIFICATE = Resource("cert-manager.io", "v1", "Certificate", "certificates")
ISSUER = Resource("cert-manager.io", "v1", "Issuer", "issuers")
OURS = Key(SPACE, "made-up-webhook-cert")
NAMES = ("made-up-webhook.made-up-system.svc",)


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    return core


@pytest.fixture
def cert_manager(providers: Providers) -> Iterator[list[Object]]:
    """Returns `install`, which creates cert-manager's CRDs; no controller acts on them."""
    stubs = [_stub(resource) for resource in (CERTIFICATE, ISSUER)]
    yield stubs
    providers.remove_all()
    for stub in stubs:
        providers.client.delete(CRD, Key("", stub["metadata"]["name"]))


def _stub(resource: Resource) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": resource.kind, "plural": resource.plural}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def bundle(providers: Providers) -> bytes:
    webhook = providers.client.get(WEBHOOKS, Key("", "made-up-validating"))
    return base64.b64decode(dig(webhook, "webhooks")[0]["clientConfig"].get("caBundle", ""))


def data(secret: Object, name: str) -> bytes:
    return base64.b64decode(secret["data"][name])


def test_cert_manager_issues_certificates_where_installed(
    core: FakeProvider, providers: Providers, cert_manager: list[Object]
) -> None:
    crds.install(providers.client, cert_manager)
    provider = core.install("v1.1.0")
    certificate = providers.client.get(CERTIFICATE, Key(SPACE, "made-up-serving"))
    assert dig(certificate, "spec.dnsNames") == list(NAMES)
    assert providers.client.find(ISSUER, Key(SPACE, "made-up-issuer"))
    assert providers.client.find(SECRET, OURS) is None
    assert not dig(provider, "status.target.renewAt")
    assert bundle(providers) == b""
    webhook = providers.client.get(WEBHOOKS, Key("", "made-up-validating"))
    assert dig(webhook, ("metadata", "annotations", "cert-manager.io/inject-ca-from")) == f"{SPACE}/made-up-serving"
    # CAs that cert-manager injects stay unchanged.
    hooks = dig(webhook, "webhooks")
    hooks[0]["clientConfig"]["caBundle"] = base64.b64encode(CertificateAuthority.generate("x").cert_pem).decode()
    providers.client.patch(WEBHOOKS, Key("", "made-up-validating"), {"webhooks": hooks}, manager="cainjector")
    injected = bundle(providers)
    core.reconcile(resync=True)
    core.install("v1.2.0")
    assert bundle(providers) == injected
    core.delete()
    assert providers.brought() == {}


def test_cert_manager_installed_later_takes_over(
    core: FakeProvider, providers: Providers, cert_manager: list[Object]
) -> None:
    core.install("v1.1.0")
    assert providers.client.find(SECRET, OURS)
    crds.install(providers.client, cert_manager)
    provider = core.install("v1.2.0")
    assert providers.client.find(CERTIFICATE, Key(SPACE, "made-up-serving"))
    kinds = {entry["kind"] for entry in dig(provider, "status.resources")}
    assert "Certificate" in kinds
    assert "Secret" not in kinds
    assert not dig(provider, "status.target.renewAt")


def test_expiring_certificate_is_renewed(core: FakeProvider, providers: Providers) -> None:
    core.install("v1.1.0")
    assert bundle(providers) == data(providers.client.get(SECRET, OURS), "ca.crt")
    ca = CertificateAuthority.generate("old CA", timedelta(days=30))
    pair = ca.issue(NAMES[0], dns=NAMES, server=True, valid_for=timedelta(days=30))
    old = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    encoded = {name: base64.b64encode(value).decode() for name, value in old.items()}
    providers.client.patch(SECRET, OURS, {"data": encoded})
    due = {"status": {"target": {"renewAt": "2020-01-01T00:00:00Z"}}}
    providers.client.patch(CORE.resource, core.at, due, subresource="status")

    core.until_ready()
    secret = providers.client.get(SECRET, OURS)
    assert data(secret, "tls.crt") != pair.cert_pem
    assert data(secret, "ca.crt").endswith(ca.cert_pem)
    assert data(secret, "ca.crt").count(b"BEGIN CERTIFICATE") == 2
    core.reconcile()
    assert bundle(providers) == data(secret, "ca.crt")
    provider = core.until_ready()
    assert dig(provider, "status.target.renewAt") > "2026"
    before = providers.versions()
    core.reconcile(resync=True)
    assert providers.versions() == before
    assert data(secret, "tls.key").decode() not in str(provider)


@pytest.mark.parametrize("serving", [True, False])
def test_existing_secret_is_kept_if_valid(core: FakeProvider, providers: Providers, serving: bool) -> None:
    """An invalid certificate is replaced."""
    ca = CertificateAuthority.generate("their CA")
    pair = ca.issue(NAMES[0], dns=NAMES if serving else ("other",), server=True)
    theirs = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    providers.secret(OURS.name, SPACE, **{name: value.decode() for name, value in theirs.items()})
    core.install("v1.1.0")
    secret = providers.client.get(SECRET, OURS)
    assert (data(secret, "tls.crt") == pair.cert_pem) is serving
    assert bundle(providers) == data(secret, "ca.crt")


def test_deleted_secret_is_recreated(core: FakeProvider, providers: Providers) -> None:
    core.install("v1.1.0")
    providers.client.delete(SECRET, OURS)
    core.reconcile(resync=True)
    core.until_ready()
    assert bundle(providers) == data(providers.client.get(SECRET, OURS), "ca.crt")
