"""Components without webhooks, for clusters in which the managers do not run."""

from __future__ import annotations

import pytest

from shared.applier.policy import PolicyError
from shared.components.certificates import INJECT
from shared.components.webhooks import with_webhooks_at, without_webhooks
from shared.kube import Object
from shared.providers.annotations import WEBHOOKS, omits_webhooks


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


def test_unknown_value_of_the_annotation_is_refused() -> None:
    with pytest.raises(PolicyError, match="webhooks is 'false'; it must be one of install, none"):
        omits_webhooks({"metadata": {"annotations": {WEBHOOKS: "false"}}})


def service(path: str | None = None) -> Object:
    reference = {"name": "s", "namespace": "n"}
    return {"service": {**reference, "path": path} if path is not None else reference}


CALLED = {"caBundle": "Q0E="}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (service("/convert"), {"url": "https://127.0.0.1:9443/convert", **CALLED}),
        (service("validate"), {"url": "https://127.0.0.1:9443/validate", **CALLED}),
        (service(), {"url": "https://127.0.0.1:9443/", **CALLED}),
        ({"url": "https://elsewhere/x", "caBundle": "eA=="}, {"url": "https://elsewhere/x", "caBundle": "eA=="}),
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
    assert with_webhooks_at(given_objects, "https://127.0.0.1:9443", b"CA") == objects(found)
    assert given_objects == objects(given)


def test_objects_without_webhooks_stay_and_those_of_cert_manager_are_left_out() -> None:
    plain = [
        of_kind("CustomResourceDefinition", spec={"group": "example.com", "conversion": {"strategy": "None"}}),
        of_kind("CustomResourceDefinition", spec={"group": "example.com"}),
        of_kind("MutatingWebhookConfiguration"),
        of_kind("Deployment"),
    ]
    certificate = {**of_kind("Certificate"), "apiVersion": "cert-manager.io/v1"}
    found = with_webhooks_at([*plain, certificate, of_kind("APIService")], "https://127.0.0.1:9443", b"CA")
    assert found == [plain[0], plain[1], of_kind("MutatingWebhookConfiguration", webhooks=[]), plain[3]]


def test_cert_manager_does_not_replace_the_ca() -> None:
    webhook = of_kind("MutatingWebhookConfiguration", webhooks=[])
    webhook["metadata"]["annotations"] = {INJECT: "n/serving-cert", "other": "stays"}
    (found,) = with_webhooks_at([webhook], "https://127.0.0.1:9443", b"CA")
    assert found["metadata"]["annotations"] == {"other": "stays"}
