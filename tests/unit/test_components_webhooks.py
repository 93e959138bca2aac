"""Components without webhooks, for clusters in which the managers do not run."""

from __future__ import annotations

import pytest

from shared.applier.policy import PolicyError
from shared.components.webhooks import without_webhooks
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
