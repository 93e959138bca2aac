"""Installations that went wrong, or over what others have left, end well; and nobody's things are taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.api.conditions import rfc3339
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT, SECRET
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.api.test_provider_upgrade import NAME, WIDGET
from tests.api.test_provider_upgrade import crd as crd_of
from tests.support.made_up import MANAGER, SPACE, MadeUp
from tests.support.provider_releases import WEBHOOKS, certificate, config_map, deployment, whole
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until


def test_back_from_a_half_done_upgrade(core: MadeUp, providers: Providers) -> None:
    """Its CRD stores in a version already that the one before does not have."""
    core.publish("v1.1.0", [crd_of("v1beta1"), config_map("one", "1")])
    core.publish("v1.2.0", [crd_of("v1beta1", "v1beta2"), config_map("Not A Name", "1")])
    core.install("v1.1.0")
    core.want("v1.2.0")
    core.look()
    assert core.told()[:2] == ("False", "InstallFailed")
    assert "v1beta2" in dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions")
    core.install("v1.1.0")
    assert dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1beta1"]


def test_over_a_kind_that_another_installer_has_left(core: MadeUp, providers: Providers) -> None:
    left = crd_of("v1beta1", "v1alpha1")
    left["metadata"]["labels"] = {PROVIDER_LABEL: "cluster-api"}
    providers.client.create(CRD, left)
    until(lambda: dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions"))
    core.publish("v1.1.0", [crd_of("v1beta1")])
    core.install("v1.1.0")
    assert dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1beta1"]


def unschedulable(version: str) -> list[Object]:
    objects = whole("made-up", version)
    for obj in objects:
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    return objects


def moved_back(core: MadeUp, *path: str) -> None:
    """What happened long ago, as far as the status tells."""
    provider = core.object
    long_ago = rfc3339(datetime.now(UTC) - timedelta(hours=1))
    status: Object = {"conditions": dig(provider, "status.conditions")}
    if path:
        status = {"target": {**dig(provider, "status.target"), path[-1]: long_ago}}
    else:
        for condition in status["conditions"]:
            condition["lastTransitionTime"] = long_ago
    core.providers.client.patch(CORE.resource, core.at, {"status": status}, subresource="status")


def test_webhooks_wait_for_what_answers_them(core: MadeUp, providers: Providers) -> None:
    """For as long as from the beginning of the rollout, not from a failure before it."""
    core.want("v1.1.0")
    core.look()
    assert core.told()[:2] == ("False", "ComponentsFetchError")
    moved_back(core)
    core.publish("v1.1.0", unschedulable("v1.1.0"))
    for _ in range(3):
        core.look()
        assert core.told()[:2] == ("False", "WaitingForBackends")
        assert list(providers.client.list(WEBHOOKS)) == []
    moved_back(core, "target", "begun")
    core.look()
    assert len(list(providers.client.list(WEBHOOKS))) == 1


def test_a_secret_of_somebody_else_is_left_alone(core: MadeUp, providers: Providers) -> None:
    providers.secret("mine", SPACE, PASSWORD="hunter2")
    before = providers.client.get(SECRET, Key(SPACE, "mine"))
    wish = certificate("made-up")
    wish["spec"]["secretName"] = "mine"
    core.publish("v1.1.0", [wish, config_map("one", "1")])
    core.want("v1.1.0")
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "CertificateSecretTaken")
    assert f"Secret {SPACE}/mine" in message
    core.delete()
    assert providers.client.get(SECRET, Key(SPACE, "mine")) == before


@pytest.mark.parametrize("choice", ["own", "cert-manager"])
def test_who_issues_certificates_is_for_the_user_to_say(core: MadeUp, providers: Providers, choice: str) -> None:
    core.publish("v1.1.0", [certificate("made-up"), config_map("one", "1")])
    core.want("v1.1.0", {"capi-functions.dev/certificates": choice})
    core.look()
    if choice == "own":
        core.until_ready()
        assert providers.client.find(SECRET, Key(SPACE, "made-up-webhook-cert")) is not None
    else:
        status, reason, message = core.told()
        assert (status, reason) == ("False", "InstallFailed")
        assert "Certificate (cert-manager.io/v1)" in message


def test_a_choice_that_is_none_is_named(core: MadeUp) -> None:
    core.publish("v1.1.0")
    core.want("v1.1.0", {"capi-functions.dev/certificates": "mine"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert "own, cert-manager" in message


def test_a_kind_that_is_kept_is_no_news(core: MadeUp, providers: Providers) -> None:
    """A resync finds it kept still, and writes nothing."""
    core.publish("v1.1.0", [crd_of("v1beta1"), config_map("one", "1")])
    core.publish("v1.2.0", [config_map("one", "2")])
    core.install("v1.1.0")
    metadata = {"name": "mine", "namespace": SPACE}
    providers.client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata})
    core.install("v1.2.0")
    before = core.object["metadata"]["resourceVersion"]
    core.look(resync=True)
    assert core.object["metadata"]["resourceVersion"] == before
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    core.look(resync=True)
    assert providers.client.find(CRD, Key("", NAME)) is None


def test_workloads_in_another_namespace_are_found(core: MadeUp, providers: Providers) -> None:
    providers.namespace("elsewhere")
    core.publish("v1.1.0", [deployment("made-up", "v1.1.0")])
    patch = {"target": {"kind": "Deployment"}, "patch": "metadata: {namespace: elsewhere}"}
    core.want("v1.1.0", patches=[patch])

    def ready() -> bool:  # no owner reference leads from there to the provider: it is looked at again and again
        core.look(resync=True)
        return is_ready(core.object)

    until(ready, "ready")


def test_webhook_configurations_that_somebody_took_away_come_back(core: MadeUp, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    providers.without_webhooks("cluster-api")
    manager = providers.client.get(DEPLOYMENT, MANAGER)
    providers.tell(manager, DEPLOYMENT)
    assert len(list(providers.client.list(WEBHOOKS))) == 1
    core.until_ready()
