"""Failed installations, and installations over objects of others, recover without taking what is not theirs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.api.conditions import rfc3339
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import SECRET
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.fake_provider import SPACE, WIDGET, WIDGETS, FakeProvider
from tests.support.provider_releases import WEBHOOKS, certificate, config_map, crd, deployment, whole
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until


def test_rollback_of_a_partial_upgrade(core: FakeProvider, providers: Providers) -> None:
    """Its CRD already stores a version that the CRD before does not have."""
    core.publish("v1.1.0", [crd("made-up", "v1beta1"), config_map("one", "1")])
    core.publish("v1.2.0", [crd("made-up", "v1beta1", "v1beta2"), config_map("Not A Name", "1")])
    core.install("v1.1.0")
    core.apply("v1.2.0")
    core.reconcile()
    assert core.condition_of()[:2] == ("False", "InstallFailed")
    assert "v1beta2" in dig(providers.client.get(CRD, Key("", WIDGETS)), "status.storedVersions")
    core.install("v1.1.0")
    assert dig(providers.client.get(CRD, Key("", WIDGETS)), "status.storedVersions") == ["v1beta1"]


def test_crd_of_another_installer_is_migrated(core: FakeProvider, providers: Providers) -> None:
    left = crd("made-up", "v1beta1", "v1alpha1")
    left["metadata"]["labels"] = {PROVIDER_LABEL: "cluster-api"}
    providers.client.create(CRD, left)
    until(lambda: dig(providers.client.get(CRD, Key("", WIDGETS)), "status.storedVersions"))
    core.publish("v1.1.0", [crd("made-up", "v1beta1")])
    core.install("v1.1.0")
    assert dig(providers.client.get(CRD, Key("", WIDGETS)), "status.storedVersions") == ["v1beta1"]


def unschedulable(version: str) -> list[Object]:
    objects = whole("made-up", version)
    for obj in objects:
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    return objects


def moved_back(core: FakeProvider, *path: str) -> None:
    """Moves the times in the status into the past."""
    provider = core.object
    long_ago = rfc3339(datetime.now(UTC) - timedelta(hours=1))
    status: Object = {"conditions": dig(provider, "status.conditions")}
    if path:
        status = {"target": {**dig(provider, "status.target"), path[-1]: long_ago}}
    else:
        for condition in status["conditions"]:
            condition["lastTransitionTime"] = long_ago
    core.providers.client.patch(CORE.resource, core.at, {"status": status}, subresource="status")


def test_wait_timeout_counts_from_the_beginning_of_the_rollout(core: FakeProvider, providers: Providers) -> None:
    """Not from an earlier failure."""
    core.apply("v1.1.0")
    core.reconcile()
    assert core.condition_of()[:2] == ("False", "ComponentsFetchError")
    moved_back(core)
    core.publish("v1.1.0", unschedulable("v1.1.0"))
    for _ in range(3):
        core.reconcile()
        assert core.condition_of()[:2] == ("False", "WaitingForBackends")
        assert list(providers.client.list(WEBHOOKS)) == []
    moved_back(core, "target", "begun")
    core.reconcile()
    assert len(list(providers.client.list(WEBHOOKS))) == 1


def test_secret_of_another_owner_is_not_overwritten(core: FakeProvider, providers: Providers) -> None:
    providers.secret("mine", SPACE, PASSWORD="hunter2")
    before = providers.client.get(SECRET, Key(SPACE, "mine"))
    desired = certificate("made-up")
    desired["spec"]["secretName"] = "mine"
    core.publish("v1.1.0", [desired, config_map("one", "1")])
    core.apply("v1.1.0")
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "CertificateSecretTaken")
    assert f"Secret {SPACE}/mine" in message
    core.delete()
    assert providers.client.get(SECRET, Key(SPACE, "mine")) == before


@pytest.mark.parametrize("choice", ["own", "cert-manager"])
def test_annotation_chooses_the_certificate_issuer(core: FakeProvider, providers: Providers, choice: str) -> None:
    core.publish("v1.1.0", [certificate("made-up"), config_map("one", "1")])
    core.apply("v1.1.0", {"capi-functions.dev/certificates": choice})
    core.reconcile()
    if choice == "own":
        core.until_ready()
        assert providers.client.find(SECRET, Key(SPACE, "made-up-webhook-cert")) is not None
    else:
        status, reason, message = core.condition_of()
        assert (status, reason) == ("False", "InstallFailed")
        assert "Certificate (cert-manager.io/v1)" in message


def test_unknown_certificate_issuer_is_reported(core: FakeProvider) -> None:
    core.publish("v1.1.0")
    core.apply("v1.1.0", {"capi-functions.dev/certificates": "mine"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert "own, cert-manager" in message


def test_kept_crd_causes_no_writes(core: FakeProvider, providers: Providers) -> None:
    """A resync finds it still kept."""
    core.publish("v1.1.0", [crd("made-up", "v1beta1"), config_map("one", "1")])
    core.publish("v1.2.0", [config_map("one", "2")])
    core.install("v1.1.0")
    metadata = {"name": "mine", "namespace": SPACE}
    providers.client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata})
    core.install("v1.2.0")
    before = core.object["metadata"]["resourceVersion"]
    core.reconcile(resync=True)
    assert core.object["metadata"]["resourceVersion"] == before
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    core.reconcile(resync=True)
    assert providers.client.find(CRD, Key("", WIDGETS)) is None


def test_workloads_in_another_namespace_are_checked(core: FakeProvider, providers: Providers) -> None:
    providers.namespace("elsewhere")
    core.publish("v1.1.0", [deployment("made-up", "v1.1.0")])
    patch = {"target": {"kind": "Deployment"}, "patch": "metadata: {namespace: elsewhere}"}
    core.apply("v1.1.0", patches=[patch])

    def ready() -> bool:  # no owner reference leads from there to the provider: it is looked at again and again
        core.reconcile(resync=True)
        return is_ready(core.object)

    until(ready, "ready")


def test_deleted_webhook_configurations_are_recreated(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    providers.without_webhooks("cluster-api")
    core.reconcile(resync=True)
    assert len(list(providers.client.list(WEBHOOKS))) == 1
    core.until_ready()
