"""Components without webhooks, for clusters in which the managers do not run."""

from __future__ import annotations

import pytest

from shared.applier.policy import PolicyError
from shared.components.webhooks import with_webhooks_at, without_webhooks
from shared.kube import Object
from shared.providers.annotations import WEBHOOKS, omits_webhooks, webhooks_url


def of_kind(kind: str, **fields: object) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}


def test_webhooks_and_conversions_are_removed() -> None:
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s", "namespace": "n"}}}}
    crd = of_kind("CustomResourceDefinition", spec={"group": "example.com", "conversion": webhook})
    asking = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
    deployment = of_kind("Deployment")
    assert without_webhooks([crd, *map(of_kind, asking), deployment]) == [
        of_kind("CustomResourceDefinition", spec={"group": "example.com", "conversion": {"strategy": "None"}}),
        deployment,
    ]
    assert crd["spec"]["conversion"] == webhook


@pytest.mark.parametrize(("value", "left_out"), [(None, False), ("install", False), ("none", True)])
def test_annotation_requests_components_without_webhooks(value: str | None, left_out: bool) -> None:
    annotations = {WEBHOOKS: value} if value else {}
    assert omits_webhooks({"metadata": {"annotations": annotations}}) is left_out


@pytest.mark.parametrize(
    ("value", "url"),
    [(None, ""), ("none", ""), *((url, url) for url in ("https://localhost:9443", "https://[::1]:9443"))],
)
def test_annotation_has_the_url_of_webhooks(value: str | None, url: str) -> None:
    annotations = {WEBHOOKS: value} if value else {}
    assert webhooks_url({"metadata": {"annotations": annotations}}) == url


@pytest.mark.parametrize(
    "value",
    ["false", "http://localhost:9443", "https://localhost:9443/path", "https://:1", "https://h:x", "https://::1:9443"],
)
def test_unknown_value_of_the_annotation_is_refused(value: str) -> None:
    for read in (omits_webhooks, webhooks_url):
        with pytest.raises(PolicyError, match=f"webhooks is '{value}'; it must be one of install, none, or a URL"):
            read({"metadata": {"annotations": {WEBHOOKS: value}}})


def service(path: str | None = None) -> Object:
    reference = {"name": "s", "namespace": "n"}
    return {"service": {**reference, "path": path} if path is not None else reference}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (service("/convert"), {"url": "https://localhost:9443/convert"}),
        (service("validate"), {"url": "https://localhost:9443/validate"}),
        ({**service(), "caBundle": "eA=="}, {"url": "https://localhost:9443/", "caBundle": "eA=="}),
        ({"url": "https://elsewhere/x"}, {"url": "https://elsewhere/x"}),
    ],
)
def test_services_of_webhooks_become_urls(given: Object, found: Object) -> None:
    def objects(client: Object) -> list[Object]:
        conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
        webhooks = [{"name": "w", "clientConfig": client, "sideEffects": "None"}]
        return [
            of_kind("CustomResourceDefinition", spec={"group": "example.com", "conversion": conversion}),
            of_kind("MutatingWebhookConfiguration", webhooks=webhooks),
            of_kind("ValidatingWebhookConfiguration", webhooks=webhooks),
        ]

    given_objects = objects(given)
    assert with_webhooks_at(given_objects, "https://localhost:9443") == objects(found)
    assert given_objects == objects(given)


def test_certificates_are_for_the_server_of_the_webhooks_too() -> None:
    plain = [
        of_kind("CustomResourceDefinition", spec={"group": "example.com", "conversion": {"strategy": "None"}}),
        of_kind("CustomResourceDefinition", spec={"group": "example.com"}),
        of_kind("Deployment"),
    ]

    def certificate(*names: str, **more: object) -> Object:
        spec = {"dnsNames": list(names), "secretName": "s", **more}
        return {**of_kind("Certificate", spec=spec), "apiVersion": "cert-manager.io/v1"}

    given = [*plain, of_kind("Certificate"), certificate("s.n.svc"), of_kind("APIService")]
    wanted = [*plain, of_kind("Certificate"), certificate("s.n.svc", "localhost")]
    assert with_webhooks_at(given, "https://localhost:9443") == wanted
    wanted[-1] = certificate("s.n.svc", ipAddresses=["::1"])
    assert with_webhooks_at(given, "https://[::1]:9443") == wanted
