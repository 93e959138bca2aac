"""Installations that went wrong, or over what others have left, end well; and nobody's things are taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.api.conditions import rfc3339
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT, SECRET
from shared.kube import Key, Object, dig, key_of
from shared.kube.crds import CRD
from tests.api.test_provider_upgrade import NAME, WIDGET
from tests.api.test_provider_upgrade import crd as crd_of
from tests.support.provider_releases import (
    WEBHOOKS,
    certificate,
    config_map,
    deployment,
    publish,
    whole,
)
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until

SPACE = "made-up-system"
CORE_KEY = (CORE, "cluster-api", SPACE)


@pytest.fixture(autouse=True)
def releases(providers: Providers, tmp_path: Path) -> Path:
    providers.releases.append(tmp_path)
    return tmp_path


def want(providers: Providers, version: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, annotations, version=version, fetchConfig=config, **spec)


def refused(providers: Providers, type_: str = "ProviderInstalled") -> tuple[str, str]:
    condition = providers.condition(providers.get(*CORE_KEY), type_)
    assert condition["status"] == "False", condition
    return condition["reason"], condition["message"]


def test_back_from_a_half_done_upgrade(providers: Providers, releases: Path) -> None:
    """Its CRD stores in a version already that the one before does not have."""
    publish(releases, "v1.1.0", [crd_of("v1beta1"), config_map("one", "1")])
    publish(releases, "v1.2.0", [crd_of("v1beta1", "v1beta2"), config_map("Not A Name", "1")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    providers.settle(*CORE_KEY)
    assert refused(providers)[0] == "InstallFailed"
    assert "v1beta2" in dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions")
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    assert dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1beta1"]


def test_over_a_kind_that_another_installer_has_left(providers: Providers, releases: Path) -> None:
    left = crd_of("v1beta1", "v1alpha1")
    left["metadata"]["labels"] = {PROVIDER_LABEL: "cluster-api"}
    providers.client.create(CRD, left)
    until(lambda: dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions"))
    publish(releases, "v1.1.0", [crd_of("v1beta1")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    assert dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1beta1"]


def unschedulable(version: str) -> list[Object]:
    objects = whole("made-up", version)
    for obj in objects:
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    return objects


def moved_back(providers: Providers, *path: str) -> None:
    """What happened long ago, as far as the status tells."""
    core = providers.get(*CORE_KEY)
    long_ago = rfc3339(datetime.now(UTC) - timedelta(hours=1))
    status: Object = {"conditions": dig(core, "status.conditions")}
    if path:
        status = {"target": {**dig(core, "status.target"), path[-1]: long_ago}}
    else:
        for condition in status["conditions"]:
            condition["lastTransitionTime"] = long_ago
    providers.client.patch(CORE.resource, key_of(core), {"status": status}, subresource="status")


def test_webhooks_wait_for_what_answers_them(providers: Providers, releases: Path) -> None:
    """For as long as from the beginning of the rollout, not from a failure before it."""
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    assert refused(providers)[0] == "ComponentsFetchError"
    moved_back(providers)
    publish(releases, "v1.1.0", unschedulable("v1.1.0"))
    for _ in range(3):
        providers.settle(*CORE_KEY)
        assert refused(providers)[0] == "WaitingForBackends"
        assert list(providers.client.list(WEBHOOKS)) == []
    moved_back(providers, "target", "begun")
    providers.settle(*CORE_KEY)
    assert len(list(providers.client.list(WEBHOOKS))) == 1


def test_a_secret_of_somebody_else_is_left_alone(providers: Providers, releases: Path) -> None:
    providers.secret("mine", SPACE, PASSWORD="hunter2")
    before = providers.client.get(SECRET, Key(SPACE, "mine"))
    wish = certificate("made-up")
    wish["spec"]["secretName"] = "mine"
    publish(releases, "v1.1.0", [wish, config_map("one", "1")])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    reason, message = refused(providers)
    assert reason == "CertificateSecretTaken"
    assert f"Secret {SPACE}/mine" in message
    providers.client.delete(CORE.resource, Key(SPACE, "cluster-api"))
    providers.settle(*CORE_KEY)
    assert providers.client.get(SECRET, Key(SPACE, "mine")) == before


@pytest.mark.parametrize("choice", ["own", "cert-manager"])
def test_who_issues_certificates_is_for_the_user_to_say(providers: Providers, releases: Path, choice: str) -> None:
    publish(releases, "v1.1.0", [certificate("made-up"), config_map("one", "1")])
    want(providers, "v1.1.0", {"capi-functions.dev/certificates": choice})
    providers.settle(*CORE_KEY)
    if choice == "own":
        providers.until_ready(*CORE_KEY)
        assert providers.client.find(SECRET, Key(SPACE, "made-up-webhook-cert")) is not None
    else:
        reason, message = refused(providers)
        assert reason == "InstallFailed"
        assert "Certificate (cert-manager.io/v1)" in message


def test_a_choice_that_is_none_is_named(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("one", "1")])
    want(providers, "v1.1.0", {"capi-functions.dev/certificates": "mine"})
    providers.settle(*CORE_KEY)
    reason, message = refused(providers)
    assert reason == "InvalidAnnotation"
    assert "own, cert-manager" in message


def test_a_kind_that_is_kept_is_no_news(providers: Providers, releases: Path) -> None:
    """A resync finds it kept still, and writes nothing."""
    publish(releases, "v1.1.0", [crd_of("v1beta1"), config_map("one", "1")])
    publish(releases, "v1.2.0", [config_map("one", "2")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    metadata = {"name": "mine", "namespace": SPACE}
    providers.client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata})
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    before = providers.get(*CORE_KEY)["metadata"]["resourceVersion"]
    providers.settle(*CORE_KEY, resync=True)
    assert providers.get(*CORE_KEY)["metadata"]["resourceVersion"] == before
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    providers.settle(*CORE_KEY, resync=True)
    assert providers.client.find(CRD, Key("", NAME)) is None


def test_workloads_in_another_namespace_are_found(providers: Providers, releases: Path) -> None:
    providers.namespace("elsewhere")
    publish(releases, "v1.1.0", [deployment("made-up", "v1.1.0")])
    patch = {"target": {"kind": "Deployment"}, "patch": "metadata: {namespace: elsewhere}"}
    want(providers, "v1.1.0", patches=[patch])

    def ready() -> bool:  # no owner reference leads from there to the provider: it is looked at again and again
        providers.settle(*CORE_KEY, resync=True)
        return is_ready(providers.get(*CORE_KEY))

    until(ready, "ready")


def test_webhook_configurations_that_somebody_took_away_come_back(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    providers.without_webhooks("cluster-api")
    manager = providers.client.get(DEPLOYMENT, Key(SPACE, "made-up-controller-manager"))
    providers.tell(manager, DEPLOYMENT)
    assert len(list(providers.client.list(WEBHOOKS))) == 1
    providers.until_ready(*CORE_KEY)
