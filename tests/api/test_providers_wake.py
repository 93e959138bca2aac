"""An installation that waits for what answers its webhooks goes on with the event that this runs now."""

from __future__ import annotations

import time

from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, dig
from shared.workload.readiness import unready
from tests.support.provider_world import Providers
from tests.support.providers import CURRENT, components

CORE_KEY = (CORE, "cluster-api", "capi-system")


def test_woken_by_its_deployment(providers: Providers) -> None:
    providers.releases.append(components(CURRENT))
    providers.apply(*CORE_KEY, version=CURRENT, fetchConfig={"url": providers.url("core-components.yaml")})
    providers.settle(*CORE_KEY)
    key = Key("capi-system", "capi-controller-manager")
    deployment = providers.client.get(DEPLOYMENT, key)
    condition = providers.condition(providers.get(*CORE_KEY), "ProviderInstalled")
    if condition["status"] == "False":  # unless it ran at once
        assert condition["reason"] == "WaitingForBackends"
        early = {**deployment, "status": {}}
        assert providers.tell(early, DEPLOYMENT).message == "not installed yet"

    deadline = time.monotonic() + 60
    while unready(deployment) and time.monotonic() < deadline:
        time.sleep(0.1)
        deployment = providers.client.get(DEPLOYMENT, key)
    providers.tell(deployment, DEPLOYMENT)
    core = providers.get(*CORE_KEY)
    assert dig(core, "status.installedVersion") == CURRENT
    assert providers.condition(core, "ProviderInstalled")["status"] == "True"
