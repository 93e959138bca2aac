"""`component_prune` with the rights of its generated role: which components stay in object storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions import catalog
from infra import local_control_plane
from shared.components.bundles import Bundle, BundleStore
from shared.event import PING, Event
from shared.kube import dig
from shared.storage import ObjectStore
from tests.support.accounts import as_account
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import whole

GROUP = "operator.cluster.x-k8s.io"
TIMER = Event(type=PING, source="/test", id="1", data={"everything": True})
OTHER = Bundle("v9.9.9", "metadata", "components", "https://example.com")


def test_components_that_no_provider_installs_are_deleted(
    core: FakeProvider, provider_plane: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_KEEP_HOURS", "0")
    monkeypatch.setattr("shared.runtime.clean_up.MIN_INTERVAL", 0.0)
    objects = ObjectStore.from_env()
    BundleStore(objects).save(OTHER)
    client, kubeconfig = core.providers.client, local_control_plane.kubeconfig(provider_plane)
    account = as_account(client, kubeconfig, "base/function-component-prune.yaml", (GROUP, "coreproviders", "list"))
    prune = catalog.handler("component_prune")
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
        core.install(version)
    in_use = f"components/{dig(core.object, 'status.target.digest')}.json"
    assert in_use in objects.list("components/")
    answer = prune(account, TIMER)
    assert answer.status == 204, answer.message
    assert objects.list("components/") == (in_use,)
    assert prune(account, TIMER).message == "0 bundles deleted"
