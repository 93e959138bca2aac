"""What others write into a provider's sources, or beside it: odd, hostile, too much. It is told, and stops nobody."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from shared.api.provider import INFRASTRUCTURE, download_labels
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, Resource, dig
from tests.support.made_up import MadeUp
from tests.support.provider_releases import (
    CLUSTER_ROLE,
    METADATA,
    certificate,
    cluster_role,
    config_map,
    deployment,
    text,
)

EVENTS = Resource("", "v1", "Event", "events")


def test_a_version_with_build_metadata(core: MadeUp) -> None:
    """It is no value of a label, by which ConfigMaps with downloads are found."""
    core.publish(quote("v1.1.0+up1"), [config_map("cluster-api", "1")])
    assert dig(core.install("v1.1.0+up1"), "status.installedVersion") == "v1.1.0+up1"
    assert core.value == "1"


def test_a_name_that_is_too_long(core: MadeUp) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    long = core.other(INFRASTRUCTURE, "n" * 70, "long-system")
    long.publish("v1.1.0")
    long.want("v1.1.0")
    long.look()
    status, reason, message = long.told("PreflightCheckPassed")
    assert (status, reason) == ("False", "InvalidProviderName")
    assert "85 characters" in message


def test_a_second_one_stops_nobody(core: MadeUp) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    second = core.other(core.kind, core.name, "other-system")
    second.want("v1.1.0")
    second.look()
    assert second.told("PreflightCheckPassed")[1] == "MoreThanOneExists"
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
def test_components_that_cannot_be_installed(
    core: MadeUp, components: list[Object] | str, reason: str, words: str
) -> None:
    core.publish("v1.1.0", components)
    core.want("v1.1.0")
    core.look()
    status, told, message = core.told()
    assert (status, told) == ("False", reason)
    assert words in message
    assert len(message) <= 4_000
    core.publish("v1.2.0")
    core.install("v1.2.0")


def test_what_the_api_server_refuses_is_told(core: MadeUp) -> None:
    """Not even the checks can be made then."""
    core.publish("v1.1.0")
    core.want("v1.1.0", fetchConfig={"selector": {"matchLabels": {"a": "no value of a label"}}})
    core.look()
    status, reason, message = core.told("PreflightCheckPassed")
    assert (status, reason) == ("False", "RequestRefused")
    assert message.startswith("the API server rejects a request: GET ConfigMap list: ")
    assert core.told("Ready") == (status, reason, message)
    core.install("v1.1.0", fetchConfig={"url": core.url})


# -- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["4815162342", "01234567"])
def test_a_value_that_the_api_server_cites(core: MadeUp, secret: str) -> None:
    """A number in the place of a text, because nobody has put it in quotes."""
    crooked = deployment("made-up", "v1.1.0")
    crooked["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "P", "value": "PUT-IT-HERE"}]
    components = text([crooked]).replace("PUT-IT-HERE", "${PASSWORD}")
    core.publish("v1.1.0", components)
    core.providers.secret("variables", core.namespace, PASSWORD=secret)
    core.want("v1.1.0", configSecret={"name": "variables"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "InstallFailed")
    assert "expected string" in message
    events = list(core.providers.client.list(EVENTS, core.namespace))
    answers = [answer.message for _, answer in core.providers.answers]
    for words in (core.object["status"], events, answers):
        assert secret not in str(words)
        assert str(int(secret, 8 if secret[0] == "0" else 10)) not in str(words)


def test_what_the_api_server_refuses_to_an_installation(core: MadeUp) -> None:
    """A patch gives the Certificate's Secret a name that is none."""
    core.publish("v1.1.0", misplaced("fine"))
    patch = {"target": {"kind": "Certificate"}, "patch": "spec: {secretName: a/b}"}
    core.want("v1.1.0", patches=[patch])
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "InstallFailed")
    assert "made-up-system/a/b" in message
    core.install("v1.1.0", patches=None)


# -- ConfigMaps with the labels of a download ----------------------------------------------------------------------


def beside(core: MadeUp, version: str, objects: list[Object]) -> None:
    provider: dict[str, Any] = {"kind": core.kind.kind, "metadata": {"name": core.name, "namespace": core.namespace}}
    labels = download_labels(provider, version)
    core.providers.config_map("anything", core.namespace, labels, metadata=METADATA, components=text(objects))


def test_a_source_that_answers_is_what_counts(core: MadeUp) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    core.publish("v1.2.0")
    beside(core, "v1.2.0", [cluster_role("not-of-the-source", "x")])
    provider = core.install("v1.2.0")
    assert dig(provider, "status.target.source").startswith(core.providers.site.url)
    assert core.providers.client.find(CLUSTER_ROLE, Key("", "not-of-the-source")) is None


def test_a_source_that_does_not_answer_is_stood_in_for(core: MadeUp) -> None:
    """Once it was, it is not asked again for this version."""
    core.providers.namespace(core.namespace)
    beside(core, "v1.2.0", [config_map("cluster-api", "brought along")])
    provider = core.install("v1.2.0")
    assert "ConfigMaps with" in dig(provider, "status.target.source")
    assert core.value == "brought along"
    asked = len(core.providers.site.asked)
    core.look(resync=True)
    assert len(core.providers.site.asked) == asked
    core.providers.client.delete(CONFIG_MAP, Key(core.namespace, "anything"))
