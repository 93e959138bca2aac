"""References to objects that do not exist: a source that is not in the catalog, a Secret, a ConfigMap."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Key, dig
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import config_map, text

ELSEWHERE = "referenced-system"


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    core.publish("v1.1.0", [config_map("cluster-api", "${GREETING:=none}")])
    return core


@pytest.mark.parametrize(
    ("field", "reference", "named"),
    [
        ("configSecret", {"name": "variables"}, "Secret made-up-system/variables (spec.configSecret)"),
        (
            "configSecret",
            {"name": "variables", "namespace": ELSEWHERE},
            f"Secret {ELSEWHERE}/variables (spec.configSecret)",
        ),
        ("additionalManifests", {"name": "more"}, "ConfigMap made-up-system/more (spec.additionalManifests)"),
        (
            "additionalManifests",
            {"name": "more", "namespace": ELSEWHERE},
            f"ConfigMap {ELSEWHERE}/more (spec.additionalManifests)",
        ),
    ],
)
def test_missing_reference_is_reported_until_it_exists(
    core: FakeProvider, field: str, reference: dict[str, str], named: str
) -> None:
    core.apply("v1.1.0", **{field: reference})
    core.providers.namespace(ELSEWHERE)
    core.reconcile()
    [answer] = [answer for name, answer in core.providers.answers if name == "provider_preflight"]
    assert answer.retry_after == 30.0
    told = ("False", "ReferencedObjectMissing", f"{named} does not exist")
    assert core.condition_of("PreflightCheckPassed") == core.condition_of("Ready") == told
    assert get_condition(dig(core.object, "status.conditions"), "ProviderInstalled") is None
    assert core.providers.brought() == {}

    there = Key(reference.get("namespace", core.namespace), reference["name"])
    if field == "configSecret":
        core.providers.secret(there.name, there.namespace, GREETING="hello")
    else:
        core.providers.config_map(there.name, there.namespace, manifests=text([config_map("cluster-api", "hello")]))
    core.until_ready()
    assert core.value == "hello"

    # Taken away again, it is told; what is installed stays as it is.
    core.providers.client.delete(SECRET if field == "configSecret" else CONFIG_MAP, there)
    core.reconcile()
    assert core.condition_of("PreflightCheckPassed") == told
    assert (core.installed, core.value) == ("v1.1.0", "hello")


@pytest.mark.parametrize("fetch_config", [None, {"url": ""}, {"oci": ""}], ids=str)
def test_unknown_provider_without_source_is_rejected(core: FakeProvider, fetch_config: dict[str, Any] | None) -> None:
    core.install("v1.1.0")
    mine = core.other(INFRASTRUCTURE, "my-custom-aws", "aws-system")
    mine.apply("v1.1.0", fetchConfig=fetch_config)
    mine.reconcile()
    status, reason, message = mine.condition_of("PreflightCheckPassed")
    assert (status, reason) == ("False", "FetchConfigValidationError")
    assert message == "Either Selector, OCI URL or provider URL must be provided for a not predefined provider"
    assert get_condition(dig(mine.object, "status.conditions"), "ProviderInstalled") is None
    mine.publish("v1.1.0")
    mine.install("v1.1.0")
