"""Providers without webhooks, for clusters that do not run their pods."""

from __future__ import annotations

import pytest

from shared.applier.policy import PREFIX
from shared.kube import ApiError, Key, Object, dig
from shared.kube.crds import CRD
from shared.providers.annotations import WEBHOOKS as ANNOTATION
from tests.support.fake_provider import SPACE, WIDGET, WIDGETS, FakeProvider
from tests.support.provider_releases import WEBHOOKS, config_map, crd
from tests.support.provider_world import Providers

NOT_WAITED_FOR = {f"{PREFIX}wait": "false"}
SERVICE = {"name": "made-up-webhook", "namespace": "system", "path": "/ask"}


def asking() -> list[Object]:
    """A CRD with two versions, with webhooks for every write and every conversion."""
    definition = crd("made-up", "v1beta1", "v1beta2")
    client = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": SERVICE}}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": client}
    rule = {"apiGroups": [definition["spec"]["group"]], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    webhook: Object = {
        "name": "validation.made-up.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": SERVICE},
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    configuration: Object = {
        "apiVersion": WEBHOOKS.api_version,
        "kind": WEBHOOKS.kind,
        "metadata": {"name": "made-up-validating"},
        "webhooks": [webhook],
    }
    return [definition, configuration, config_map("one", "1")]


def widget(name: str) -> Object:
    return {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, "metadata": {"name": name, "namespace": SPACE}}


def test_objects_can_be_written_and_read_without_webhooks(core: FakeProvider, providers: Providers) -> None:
    client = providers.client
    core.publish("v1.1.0", asking())
    core.install("v1.1.0", NOT_WAITED_FOR)
    with pytest.raises(ApiError, match="webhook"):
        client.create(WIDGET, widget("refused"))

    core.install("v1.1.0", NOT_WAITED_FOR | {ANNOTATION: "none"})
    assert client.find(WEBHOOKS, Key("", "made-up-validating")) is None
    assert dig(client.get(CRD, Key("", WIDGETS)), "spec.conversion") == {"strategy": "None"}
    client.create(WIDGET, widget("taken"))
    for version in ("v1beta1", "v1beta2"):
        path = f"/apis/{WIDGET.group}/{version}/namespaces/{SPACE}/{WIDGET.plural}/taken"
        assert client.request("GET", path)["apiVersion"] == f"{WIDGET.group}/{version}"
    client.delete(WIDGET, Key(SPACE, "taken"))


def test_unknown_value_of_the_annotation_is_reported(core: FakeProvider) -> None:
    core.publish("v1.1.0")
    core.apply("v1.1.0", {ANNOTATION: "off"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert f"annotation {ANNOTATION} is 'off'; it must be one of install, none" in message
