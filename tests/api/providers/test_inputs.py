"""Inputs of providers: missing references, unusual and hostile content. Problems are reported and block no others."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import INFRASTRUCTURE, download_labels
from shared.api.resources import CLUSTER_ROLE, CONFIG_MAP, EVENT, SECRET
from shared.kube import Key, Object, dig
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import METADATA, certificate, cluster_role, config_map, deployment, text

ELSEWHERE = "referenced-system"


def test_version_with_build_metadata_is_installed(core: FakeProvider) -> None:
    """Such a version cannot be the value of a label, by which downloads are found."""
    core.publish(quote("v1.1.0+up1"), [config_map("cluster-api", "1")])
    assert dig(core.install("v1.1.0+up1"), "status.installedVersion") == "v1.1.0+up1"
    assert core.value == "1"


def test_too_long_name_is_rejected(core: FakeProvider) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    long = core.other(INFRASTRUCTURE, "n" * 70, "long-system")
    long.publish("v1.1.0")
    long.apply("v1.1.0")
    long.reconcile()
    status, reason, message = long.condition_of("PreflightCheckPassed")
    assert (status, reason) == ("False", "InvalidProviderName")
    assert "85 characters" in message


def test_second_core_provider_does_not_block_the_first(core: FakeProvider) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    second = core.other(core.kind, core.name, "other-system")
    second.apply("v1.1.0")
    second.reconcile()
    assert second.condition_of("PreflightCheckPassed")[1] == "MoreThanOneExists"
    core.install("v1.2.0")
    core.delete()
    second.until_ready()  # looked at again


def crooked(value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cluster-api}}\ndata: {{value: {value}}}\n"


def unknown(count: int) -> list[Object]:
    kinds = [f"K{'x' * 50}{number}" for number in range(count)]
    return [{"apiVersion": "who.example.com/v1", "kind": kind, "metadata": {"name": "a"}} for kind in kinds]


def misplaced(secret: str) -> list[Object]:
    broken = certificate("made-up")
    broken["spec"]["secretName"] = secret
    return [broken, config_map("cluster-api", "1")]


@pytest.mark.parametrize(
    ("components", "reason", "words"),
    [
        pytest.param(crooked("!!int ''"), "ComponentsFetchError", "document 1 is not YAML", id="no number"),
        pytest.param(crooked("1" + "0" * 400), "ComponentsFetchError", "document 1 is not YAML", id="a long number"),
        pytest.param(unknown(600), "InstallFailed", "who.example.com/v1", id="many unknown kinds"),
        pytest.param(
            misplaced("a/b"), "ComponentsFetchError", "Certificate made-up-serving: spec.secretName", id="name"
        ),
    ],
)
def test_invalid_components_are_rejected(
    core: FakeProvider, components: list[Object] | str, reason: str, words: str
) -> None:
    core.publish("v1.1.0", components)
    core.apply("v1.1.0")
    core.reconcile()
    status, reported_reason, message = core.condition_of()
    assert (status, reported_reason) == ("False", reason)
    assert words in message
    assert len(message) <= 4_000
    core.publish("v1.2.0")
    core.install("v1.2.0")


def test_rejected_read_is_reported(core: FakeProvider) -> None:
    """The checks cannot run without it."""
    core.publish("v1.1.0")
    core.apply("v1.1.0", fetchConfig={"selector": {"matchLabels": {"a": "no value of a label"}}})
    core.reconcile()
    status, reason, message = core.condition_of("PreflightCheckPassed")
    assert (status, reason) == ("False", "RequestRefused")
    assert message.startswith("the API server rejects a request: GET ConfigMap list: ")
    assert core.condition_of("Ready") == (status, reason, message)
    core.install("v1.1.0", fetchConfig={"url": core.url})


# -- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["4815162342", "01234567"])
def test_secret_value_in_a_rejection_is_redacted(core: FakeProvider, secret: str) -> None:
    """An unquoted variable is a number where the API server expects a string."""
    crooked = deployment("made-up", "v1.1.0")
    crooked["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "P", "value": "PUT-IT-HERE"}]
    components = text([crooked]).replace("PUT-IT-HERE", "${PASSWORD}")
    core.publish("v1.1.0", components)
    core.providers.secret("variables", core.namespace, PASSWORD=secret)
    core.apply("v1.1.0", configSecret={"name": "variables"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "expected string" in message
    events = list(core.providers.client.list(EVENT, core.namespace))
    answers = [answer.message for _, answer in core.providers.answers]
    for words in (core.object["status"], events, answers):
        assert secret not in str(words)
        assert str(int(secret, 8 if secret[0] == "0" else 10)) not in str(words)


def test_rejected_write_of_the_installation_is_reported(core: FakeProvider) -> None:
    """A patch gives the Certificate's Secret an invalid name."""
    core.publish("v1.1.0", misplaced("fine"))
    patch = {"target": {"kind": "Certificate"}, "patch": "spec: {secretName: a/b}"}
    core.apply("v1.1.0", patches=[patch])
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "made-up-system/a/b" in message
    core.install("v1.1.0", patches=None)


# -- ConfigMaps with the labels of a download ----------------------------------------------------------------------


def beside(core: FakeProvider, version: str, objects: list[Object]) -> None:
    provider: dict[str, Any] = {"kind": core.kind.kind, "metadata": {"name": core.name, "namespace": core.namespace}}
    labels = download_labels(provider, version)
    core.providers.config_map("anything", core.namespace, labels, metadata=METADATA, components=text(objects))


def test_answering_source_comes_before_config_maps(core: FakeProvider) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    core.publish("v1.2.0")
    beside(core, "v1.2.0", [cluster_role("not-of-the-source", "x")])
    provider = core.install("v1.2.0")
    assert dig(provider, "status.target.source").startswith(core.providers.site.url)
    assert core.providers.client.find(CLUSTER_ROLE, Key("", "not-of-the-source")) is None


def test_config_map_replaces_a_source_that_does_not_answer(core: FakeProvider) -> None:
    """After that the source is not asked again for this version."""
    core.providers.namespace(core.namespace)
    beside(core, "v1.2.0", [config_map("cluster-api", "brought along")])
    provider = core.install("v1.2.0")
    assert "ConfigMaps with" in dig(provider, "status.target.source")
    assert core.value == "brought along"
    sent = len(core.providers.site.requests)
    core.reconcile(resync=True)
    assert len(core.providers.site.requests) == sent
    core.providers.client.delete(CONFIG_MAP, Key(core.namespace, "anything"))


# -- references ----------------------------------------------------------------------------------------------------


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
    core.publish("v1.1.0", [config_map("cluster-api", "${GREETING:=none}")])
    core.apply("v1.1.0", **{field: reference})
    core.providers.namespace(ELSEWHERE)
    core.reconcile()
    [answer] = [answer for name, answer in core.providers.answers if name == "provider_preflight"]
    assert answer.retry_after == 30.0
    expected = ("False", "ReferencedObjectMissing", f"{named} does not exist")
    assert core.condition_of("PreflightCheckPassed") == core.condition_of("Ready") == expected
    assert get_condition(dig(core.object, "status.conditions"), "ProviderInstalled") is None
    assert core.providers.brought() == {}

    there = Key(reference.get("namespace", core.namespace), reference["name"])
    if field == "configSecret":
        core.providers.secret(there.name, there.namespace, GREETING="hello")
    else:
        core.providers.config_map(there.name, there.namespace, manifests=text([config_map("cluster-api", "hello")]))
    core.until_ready()
    assert core.value == "hello"

    # After its deletion the reference is reported, and what is installed stays unchanged.
    core.providers.client.delete(SECRET if field == "configSecret" else CONFIG_MAP, there)
    core.reconcile()
    assert core.condition_of("PreflightCheckPassed") == expected
    assert (core.installed, core.value) == ("v1.1.0", "hello")


@pytest.mark.parametrize("fetch_config", [None, {"url": ""}, {"oci": ""}], ids=str)
def test_unknown_provider_without_source_is_rejected(core: FakeProvider, fetch_config: dict[str, Any] | None) -> None:
    core.publish("v1.1.0")
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
