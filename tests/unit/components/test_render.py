"""Rendering a provider: the order of the steps, and the reason of the error of each step."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from shared.api.conditions import MAX_MESSAGE
from shared.api.provider import CORE, INFRASTRUCTURE, ProviderKind
from shared.components.errors import ComponentsError
from shared.components.render import generate_components, render
from shared.kube import Object, dig
from tests.support.provider_objects import provider

COMPONENTS = """
apiVersion: v1
kind: Namespace
metadata: {name: x-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: x-system}
data: {region: "${REGION:=here}", project: "${PROJECT}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: x-controller-manager, namespace: x-system}
spec:
  replicas: 1
  template:
    spec:
      containers:
      - {name: manager, image: "reg.example/x/manager:v1", args: ["--v=1"]}
"""
VALUES = {"PROJECT": "p"}


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the mounted configuration is; it is not there."""
    path = tmp_path / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(path))
    return path


def x(kind: ProviderKind = INFRASTRUCTURE, name: str = "x", **spec: object) -> Object:
    return provider(kind, name, "to", **spec)


def of(objects: list[Object], kind: str) -> Object:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def image(objects: list[Object]) -> str:
    (container,) = dig(of(objects, "Deployment"), "spec.template.spec.containers")
    return str(container["image"])


def test_rendered_objects_are_those_of_clusterctl_without_the_namespace() -> None:
    plain = generate_components(COMPONENTS, VALUES, namespace="to", label="infrastructure-x")
    assert [obj["kind"] for obj in plain] == ["Namespace", "ConfigMap", "Deployment"]
    assert plain[0]["metadata"]["name"] == "to"
    rendered = render(COMPONENTS, provider=x(), values=VALUES)
    assert rendered.objects == plain[1:]
    assert rendered.variables == {"REGION": "here", "PROJECT": None}
    assert rendered == render(COMPONENTS, provider=x(), values=VALUES)


def test_components_without_namespace_object_get_one() -> None:
    components = COMPONENTS.partition("---")[2]
    whole = generate_components(COMPONENTS, VALUES, namespace="to", label="infrastructure-x")
    assert generate_components(components, VALUES, namespace="to", label="infrastructure-x") == whole


@pytest.mark.parametrize(
    ("provider", "label"), [(x(), "infrastructure-x"), (x(CORE, "cluster-api"), "cluster-api")], ids=["x", "core"]
)
def test_all_objects_have_namespace_and_label_of_the_provider(provider: Object, label: str) -> None:
    before = deepcopy(provider)
    for obj in render(COMPONENTS, provider=provider, values=VALUES).objects:
        assert obj["metadata"]["namespace"] == "to"
        assert obj["metadata"]["labels"]["cluster.x-k8s.io/provider"] == label
    assert provider == before


def test_additional_manifests_are_treated_like_components() -> None:
    more = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: more}\nstringData: {project: '${PROJECT}', also: '${ALSO:=a}'}"
    )
    rendered = render(COMPONENTS, provider=x(), values=VALUES, additional=more)
    secret = of(rendered.objects, "Secret")
    assert secret["stringData"] == {"project": "p", "also": "a"}
    assert secret["metadata"]["namespace"] == "to"
    assert set(rendered.variables) == {"REGION", "PROJECT", "ALSO"}


def test_additional_manifest_replaces_the_component_of_its_identity() -> None:
    more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mine: 'yes'}"
    rendered = render(COMPONENTS, provider=x(), values=VALUES, additional=more)
    assert [obj["kind"] for obj in rendered.objects] == ["ConfigMap", "Deployment"]
    assert rendered.objects[0]["data"] == {"mine": "yes"}


REPLICAS = {"target": {"kind": "Deployment"}, "patch": "[{op: test, path: /spec/replicas, value: 3}]"}


def test_patches_apply_after_customization() -> None:
    made = render(COMPONENTS, provider=x(deployment={"replicas": 3}, patches=[REPLICAS]), values=VALUES)
    assert of(made.objects, "Deployment")["spec"]["replicas"] == 3


def test_customization_applies_after_image_overrides_of_the_secret() -> None:
    values = {**VALUES, "images": "{all: {repository: r.io}, infrastructure-x/manager: {tag: v2}}"}
    assert image(render(COMPONENTS, provider=x(), values=values).objects) == "r.io/manager:v2"
    custom = x(deployment={"containers": [{"name": "manager", "imageUrl": "s.io/other:v3"}]})
    assert image(render(COMPONENTS, provider=custom, values=values).objects) == "s.io/other:v3"


def test_image_overrides_of_the_mounted_configuration_apply_last(configuration: Path) -> None:
    configuration.write_text("images: {all: {repository: last.io}, infrastructure-y: {tag: v9}}")
    values = {**VALUES, "images": "{all: {repository: r.io, tag: v2}}"}
    assert image(render(COMPONENTS, provider=x(), values=values).objects) == "last.io/manager:v2"
    custom = x(deployment={"containers": [{"name": "manager", "imageUrl": "other:v3"}]})
    assert image(render(COMPONENTS, provider=custom, values=values).objects) == "last.io/other:v3"


@pytest.mark.parametrize(
    ("components", "values", "spec", "reason", "message"),
    [
        ("${A} ${B:=}", {}, {}, "ComponentsFetchError", r"variables \[A, B\] is not set"),
        ("${A", {}, {}, "ComponentsFetchError", "line 1 of the components: missing closing brace"),
        ("a: [", {}, {}, "ComponentsFetchError", "document 1 is not YAML"),
        (
            COMPONENTS,
            {"PROJECT": 'p"}\n---\nx'},
            {},
            "ComponentsFetchError",
            "document 2 is not YAML|document 3 is a str",
        ),
        (COMPONENTS, {**VALUES, "images": "[]"}, {}, "ComponentsImageOverrideError", "images of the config Secret"),
        (
            COMPONENTS,
            VALUES,
            {"deployment": {"containers": [{"name": "none"}]}},
            "ComponentsCustomizationError",
            "no container 'none'",
        ),
        (COMPONENTS, VALUES, {"patches": [REPLICAS]}, "ComponentsPatchError", "Deployment.*missing or differs"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_error_has_the_condition_reason_of_its_step(
    components: str, values: dict[str, str], spec: Object, reason: str, message: str
) -> None:
    with pytest.raises(ComponentsError, match=message) as caught:
        render(components, provider=x(**spec), values=values)
    assert caught.value.reason == reason


def test_error_in_the_mounted_configuration_names_it(configuration: Path) -> None:
    configuration.write_text("images: {all: r.io}")
    with pytest.raises(ComponentsError, match="images of the configuration: all") as caught:
        render(COMPONENTS, provider=x(), values=VALUES)
    assert caught.value.reason == "ComponentsImageOverrideError"


@pytest.mark.parametrize(
    "components",
    ["${" + "A" * 100_000 + "}", "apiVersion: v1\nkind: Pod\nmetadata: {labels: [], name: " + "a" * 100_000 + "}"],
    ids=["variable", "object"],
)
def test_long_message_is_shortened_for_conditions(components: str) -> None:
    with pytest.raises(ComponentsError) as caught:
        render(components, provider=x(), values={})
    assert len(str(caught.value)) == MAX_MESSAGE


@pytest.mark.parametrize(
    "components",
    [
        "a: ${S}",
        "a: !!int '${S}'",
        "a: !!float ${S}",
        "? !!binary ${S}\n: x",
        "a: x${S}: x: y",
        "a: {<<: x${S}}",
        "x${S}",
    ],
)
@pytest.mark.parametrize(
    "secret", ["!hunter2", "*hunter2", "!hun'ter2", '!hunt"er2', "aHVudGVyMg==", "@hunter2", "{hunter2"]
)
def test_error_quotes_no_value_of_a_variable(components: str, secret: str) -> None:
    with pytest.raises(ComponentsError) as caught:
        render(components, provider=x(), values={"S": secret})
    message = str(caught.value).lower()
    assert "document 1" in message
    assert not [part for part in ("hun", "ter2", "er2", "ahvu") if part in message]
    assert caught.value.__cause__ is None
