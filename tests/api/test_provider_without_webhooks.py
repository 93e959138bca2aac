"""Providers where nothing runs their pods: what they bring must not have the API server ask anybody."""

from __future__ import annotations

import pytest

from shared.applier.policy import PREFIX
from shared.kube import ApiError, Key, Object, dig
from shared.kube.crds import CRD
from shared.providers.annotations import WEBHOOKS as ANNOTATION
from tests.api.test_provider_upgrade import NAME, WIDGET
from tests.api.test_provider_upgrade import crd as crd_of
from tests.support.made_up import SPACE, MadeUp
from tests.support.provider_releases import WEBHOOKS, config_map
from tests.support.provider_world import Providers

NOT_WAITED_FOR = {f"{PREFIX}wait": "false"}
SERVICE = {"name": "made-up-webhook", "namespace": "system", "path": "/ask"}


def asking() -> list[Object]:
    """A kind of two versions, whose every write and every conversion takes a program."""
    crd = crd_of("v1beta1", "v1beta2")
    client = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": SERVICE}}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": client}
    rule = {"apiGroups": [crd["spec"]["group"]], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
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
    return [crd, configuration, config_map("one", "1")]


def widget(name: str) -> Object:
    return {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, "metadata": {"name": name, "namespace": SPACE}}


def test_objects_of_a_provider_without_webhooks_can_be_written_and_read(core: MadeUp, providers: Providers) -> None:
    client = providers.client
    core.publish("v1.1.0", asking())
    core.install("v1.1.0", NOT_WAITED_FOR)
    with pytest.raises(ApiError, match="webhook"):
        client.create(WIDGET, widget("refused"))

    core.install("v1.1.0", NOT_WAITED_FOR | {ANNOTATION: "none"})
    assert client.find(WEBHOOKS, Key("", "made-up-validating")) is None
    assert dig(client.get(CRD, Key("", NAME)), "spec.conversion") == {"strategy": "None"}
    client.create(WIDGET, widget("taken"))
    for version in ("v1beta1", "v1beta2"):
        path = f"/apis/{WIDGET.group}/{version}/namespaces/{SPACE}/{WIDGET.plural}/taken"
        assert client.request("GET", path)["apiVersion"] == f"{WIDGET.group}/{version}"
    client.delete(WIDGET, Key(SPACE, "taken"))


def test_annotation_that_says_nothing_known_is_told(core: MadeUp) -> None:
    core.publish("v1.1.0")
    core.want("v1.1.0", {ANNOTATION: "off"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert f"annotation {ANNOTATION} is 'off'; it may be install, none" in message
