"""Overrides of images. IM numbers are those of the acceptance list."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from shared.components.errors import ImageError
from shared.components.images import override_image, override_images, parse, validate_overrides
from shared.kube import Object

LABEL = "infrastructure-x"
IMAGE = "reg.example/a/b/foo:v1"
DIGEST = "@sha256:" + "0" * 64


def workload(kind: str, *images: str, **more: Any) -> Object:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    pod = {"containers": containers, "initContainers": deepcopy(containers), **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_im1_images_of_all_containers_of_workloads_are_overridden(kind: str) -> None:
    before = workload(kind, IMAGE, "nginx")
    kept = deepcopy(before)
    assert override_images([before], {"all": {"repository": "r.io"}}, LABEL) == [
        workload(kind, "r.io/foo:v1", "r.io/nginx"),
    ]
    assert before == kept


@pytest.mark.parametrize(
    "obj",
    [
        workload("StatefulSet", IMAGE),
        workload("Deployment", IMAGE, initContainers=None, containers=[{"name": "none"}]),
        workload("Deployment", initContainers={"image": IMAGE}, containers=7),
        workload("Deployment", initContainers=["image", None], containers=[{"image": 7}]),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": []},
    ],
    ids=str,
)
def test_objects_without_images_are_unchanged(obj: Object) -> None:
    assert override_images([obj], {"all": {"tag": "v9"}}, LABEL) == [obj]


@pytest.mark.parametrize(
    ("image", "overrides", "result"),
    [
        pytest.param(IMAGE, {}, IMAGE, id="IM3 none"),
        pytest.param(IMAGE, {f"{LABEL}/foo": {"tag": "v9"}}, "reg.example/a/b/foo:v9", id="IM3 of the image"),
        pytest.param(IMAGE, {f"{LABEL}/bar": {"tag": "v9"}}, IMAGE, id="IM3 of another image"),
        pytest.param(IMAGE, {"infrastructure-y": {"tag": "v9"}}, IMAGE, id="of another provider"),
        pytest.param(IMAGE, {LABEL: {"repository": "r.io/z"}}, "r.io/z/foo:v1", id="IM3 of the provider"),
        pytest.param(
            IMAGE, {LABEL: {"tag": "a"}, f"{LABEL}/foo": {"tag": "b"}}, "reg.example/a/b/foo:b", id="IM3 both"
        ),
        pytest.param(
            IMAGE, {f"{LABEL}/foo": {"tag": "b"}, LABEL: {"repository": "r.io"}}, "r.io/foo:b", id="IM3 mixed fields"
        ),
        pytest.param(IMAGE, {"all": {"repository": "r.io"}}, "r.io/foo:v1", id="IM3 all"),
        pytest.param(
            IMAGE,
            {"all": {"repository": "r.io", "tag": "a"}, LABEL: {"repository": "s.io"}},
            "s.io/foo:a",
            id="IM3 two",
        ),
        pytest.param(
            IMAGE,
            {"all": {"repository": "r.io", "tag": "a"}, LABEL: {"tag": "b"}, f"{LABEL}/foo": {"name": "bar"}},
            "r.io/bar:b",
            id="IM3 all three",
        ),
        pytest.param(IMAGE, {"all": {"repository": "r.io/z/"}}, "r.io/z/foo:v1", id="a slash at the end"),
        pytest.param(IMAGE + DIGEST, {"all": {"tag": "v9"}}, f"reg.example/a/b/foo:v9{DIGEST}", id="the digest stays"),
        pytest.param(
            f"reg.example/foo{DIGEST}", {"all": {"repository": "r.io"}}, f"r.io/foo{DIGEST}", id="digest alone"
        ),
        pytest.param("reg:5000/foo", {"all": {"tag": "v9"}}, "reg:5000/foo:v9", id="a port is not a tag"),
        pytest.param("localhost/foo", {"all": {"tag": "v9"}}, "localhost/foo:v9", id="localhost"),
        pytest.param("nginx", {}, "nginx", id="IM2 a short name stays"),
        pytest.param("nginx", {f"{LABEL}/foo": {"tag": "v9"}}, "nginx", id="IM2 also beside other overrides"),
        pytest.param("nginx:1", {"all": {"repository": "r.io"}}, "r.io/nginx:1", id="a short name is overridden, too"),
        pytest.param("a/nginx", {f"{LABEL}/nginx": {"tag": "2"}}, "docker.io/a/nginx:2", id="and becomes a full one"),
        pytest.param("no image", {}, "no image", id="what is not a valid image stays"),
    ],
)
def test_im3_overrides_of_one_image_precede_those_of_the_provider_and_of_all(
    image: str, overrides: dict[str, dict[str, str]], result: str
) -> None:
    assert override_image(image, overrides, LABEL) == result


@pytest.mark.parametrize(
    "image", ["no image", "", "reg.example/foo:", "reg.example/FOO", "x/" * 50_000, "r.io/f:" + "t" * 129]
)
def test_im3_invalid_image_cannot_be_overridden(image: str) -> None:
    with pytest.raises(ImageError, match="is not a valid image"):
        override_image(image, {"all": {"tag": "v9"}}, LABEL)


def test_im2_error_names_the_container() -> None:
    with pytest.raises(ImageError, match="Deployment w, container c1: 'no image' is not a valid image"):
        override_images([workload("Deployment", IMAGE, "no image")], {"all": {"tag": "v9"}}, LABEL)


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", {}),
        ("{}", {}),
        ("all: {repository: r.io, tag: v1, name: foo}", {"all": {"repository": "r.io", "tag": "v1", "name": "foo"}}),
        ("all: {tag: 5}", {"all": {"tag": "5"}}),
        ("all: {tag: '', unknown: x}\nx:", {"all": {}, "x": {}}),
    ],
)
def test_overrides_are_parsed_field_by_field(text: str, overrides: object) -> None:
    assert parse(text) == overrides


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- all", "images of the config Secret: must be a mapping"),
        ("all: r.io", "all: must be a mapping with some of repository"),
        ("all: {tag: [v1]}", "all: tag: must be a string"),
        ("all: {tag: yes}", "all: tag: must be a string"),
        ("all: {tag: 1.20}", "all: tag: must be a string, in quotes"),
        ("all: {", "not YAML"),
        ("---\na: {}\n---\nb: {}", "not YAML: expected one"),
        ("[" * 100_000, "not YAML"),
        ("a: &a [x]\nb: &b [" + "*a," * 99 + "]\nc: &c [" + "*b," * 99 + "]\nd: [" + "*c," * 999 + "]", "not YAML"),
    ],
    ids=lambda value: value[:40],
)
def test_im3_invalid_overrides_are_refused(text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        parse(text)


def test_error_names_the_origin_of_the_overrides() -> None:
    with pytest.raises(ImageError, match=r"^images of the configuration: all: must be"):
        validate_overrides({"all": []}, "images of the configuration")
