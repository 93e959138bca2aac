"""The life of a provider with each function under its own ServiceAccount and its generated rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions import catalog
from infra import local_control_plane
from shared.api.resources import CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Key
from shared.runtime import Answer
from tests.support.accounts import as_account
from tests.support.event_receiver import EventReceiver
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import METADATA, config_map, crd, text, whole, widget
from tests.support.provider_world import PHASES
from tests.support.until import until

FUNCTIONS = (*PHASES, "provider_wake")
GROUP = "operator.cluster.x-k8s.io"


@pytest.fixture
def accounts(core: FakeProvider, provider_plane: Path) -> dict[str, Clients]:
    """Limits the functions to their generated rights."""
    kubeconfig = local_control_plane.kubeconfig(provider_plane)
    client = core.providers.client
    found = {}
    for name in FUNCTIONS:
        manifest = f"base/function-{name.replace('_', '-')}.yaml"
        found[name] = as_account(client, kubeconfig, manifest, (GROUP, "coreproviders", "get"))

    def deliver(name: str, event: Event) -> Answer:
        answer = catalog.handler(name)(found[name], event)
        assert "forbidden" not in answer.message, f"{name}: {answer.message}"
        return answer

    core.providers.deliver = deliver
    return found


def test_generated_rights_suffice_to_install_upgrade_and_delete(
    core: FakeProvider, accounts: dict[str, Clients]
) -> None:
    core.publish("v1.1.0", [crd("without-any"), *whole("made-up", "v1.1.0")])
    core.publish("v1.2.0", whole("made-up", "v1.2.0"))
    core.install("v1.1.0")
    core.install("v1.2.0")
    assert core.installed == "v1.2.0"
    core.delete()
    until(
        lambda: core.gone,
        "the provider is deleted",
        between=core.reconcile,
        details=lambda: core.providers.answers[-3:],
    )


def test_generated_rights_suffice_for_forced_deletion(core: FakeProvider, accounts: dict[str, Clients]) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    core.providers.without_webhooks(core.label)
    resource = widget("made-up")
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "w", "namespace": SPACE}}
    core.providers.client.create(resource, body)
    patch = {"metadata": {"annotations": {"capi-functions.dev/force-delete": "true"}}}
    core.providers.client.patch(core.kind.resource, core.at, patch)
    core.delete()
    until(
        lambda: core.gone,
        "the provider is deleted",
        between=core.reconcile,
        details=lambda: core.providers.answers[-3:],
    )


def test_generated_rights_suffice_to_wake_a_provider(
    core: FakeProvider, accounts: dict[str, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Secret is named in the event and not read; a ConfigMap is read for its labels."""
    core.providers.secret("variables", SPACE, VALUE="one")
    data = {"metadata": METADATA, "components": text([config_map(core.label, "one")])}
    core.providers.config_map("v1.1.0", SPACE, {"wakes": "it"}, **data)
    selector = {"selector": {"matchLabels": {"wakes": "it"}}}
    core.install("v1.1.0", fetchConfig=selector, configSecret={"name": "variables"})
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        for resource, name in ((SECRET, "variables"), (CONFIG_MAP, "v1.1.0")):
            changed = {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name, "namespace": SPACE}}
            core.providers.send(change_event(changed, "update", source="/test", reference=True), ["provider_wake"])
        assert [event.key for _, event, _ in receiver.received] == [core.at, core.at]


def test_provider_delete_may_not_change_other_objects(core: FakeProvider, accounts: dict[str, Clients]) -> None:
    core.providers.config_map("precious", SPACE, value="one")
    with pytest.raises(ApiError) as refused:
        accounts["provider_delete"].management.patch(CONFIG_MAP, Key(SPACE, "precious"), {"data": {"value": "two"}})
    assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        accounts["provider_wake"].management.find(SECRET, Key(SPACE, "any"))
    assert refused.value.status == 403
