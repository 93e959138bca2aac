"""Objects as a provider's patches change them; named after what Cluster API Operator's users rely on."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from shared.components.errors import PatchError
from shared.components.patches import apply_patches
from shared.kube import Object
from tests.support.provider_objects import provider

ACCOUNT: Object = {"kind": "ServiceAccount", "name": "one", "namespace": "n"}
MORE: Object = {"kind": "ServiceAccount", "name": "two", "namespace": "n"}


def binding(subjects: list[Object], name: str = "binding") -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": "role"},
        "subjects": subjects,
    }


def service(name: str, port: int = 443, namespace: str = "n", **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"given": "yes", **labels}},
        "spec": {"ports": [{"port": port, "targetPort": "webhook"}], "selector": {"app": "a"}},
    }


OBJECTS = [binding([ACCOUNT]), service("one"), service("two")]


def with_patches(objects: list[Object], **spec: Any) -> list[Object]:
    """What is passed in stays as it is."""
    before, made = deepcopy(objects), provider(**spec)
    asked = deepcopy(made)
    result = apply_patches(objects, made)
    assert (objects, made) == (before, asked)
    return result


def text(value: Any) -> str:
    return json.dumps(value)


def patch(content: Any, **target: str) -> Object:
    return {"patch": text(content), **({"target": target} if target else {})}


# -- PA1 to PA3: the same outcome in three ways --------------------------------------------------------------------

PORT = {"spec": {"ports": [{"port": 7777, "targetPort": "webhook"}]}}
LABEL = {"metadata": {"labels": {"test-label": "test-value"}}}
SERVICE = {"apiVersion": "v1", "kind": "Service"}
BINDING = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
NAMED = {"metadata": {"name": "one", "namespace": "n"}}

MANIFESTS = [
    BINDING | {"subjects": [ACCOUNT, MORE]},
    SERVICE | LABEL,
    SERVICE | {"spec": {"selector": None}},
    SERVICE | {"spec": {"selector": {"another": "selector"}}},
    SERVICE | NAMED | PORT,
]
MERGES = [
    patch({"subjects": [ACCOUNT, MORE]}, group="rbac.authorization.k8s.io", kind="ClusterRoleBinding"),
    patch(LABEL, kind="Service"),
    patch({"spec": {"selector": None}}, kind="Service"),
    patch({"spec": {"selector": {"another": "selector"}}}, kind="Service"),
    patch(PORT, kind="Service", name="one", namespace="n"),
]
OPERATIONS = [
    patch([{"op": "add", "path": "/subjects/-", "value": MORE}], kind="ClusterRoleBinding"),
    patch([{"op": "add", "path": "/metadata/labels/test-label", "value": "test-value"}], kind="Service"),
    patch(
        [
            {"op": "remove", "path": "/spec/selector"},
            {"op": "add", "path": "/spec/selector", "value": {"another": "selector"}},
        ],
        kind="Service",
    ),
    patch([{"op": "replace", "path": "/spec/ports/0/port", "value": 7777}], kind="Service", name="one", namespace="n"),
]


@pytest.mark.parametrize(
    "spec",
    [{"manifestPatches": [text(one) for one in MANIFESTS]}, {"patches": MERGES}, {"patches": OPERATIONS}],
    ids=["PA1", "PA2", "PA3"],
)
def test_patches_as_operations_merge_or_manifest_give_the_same_object(spec: Object) -> None:
    expected = [
        binding([ACCOUNT, MORE]),
        service("one", port=7777),
        service("two"),
    ]
    for obj in expected[1:]:
        obj["metadata"]["labels"]["test-label"] = "test-value"
        obj["spec"]["selector"] = {"another": "selector"}
    assert with_patches(OBJECTS, **spec) == expected


@pytest.mark.parametrize("spec", [{}, {"patches": []}, {"manifestPatches": []}, {"patches": [patch([])]}], ids=str)
def test_provider_without_patches_changes_nothing(spec: Object) -> None:
    assert with_patches(OBJECTS, **spec) == OBJECTS


def test_objects_without_patch_are_not_copied() -> None:
    result = apply_patches(OBJECTS, provider(patches=[patch(LABEL, name="two")]))
    assert [one is other for one, other in zip(result, OBJECTS, strict=True)] == [True, True, False]


def test_patch_may_be_yaml() -> None:
    content = {"patch": "# none\n- op: remove\n  path: /subjects\n", "target": {"kind": "ClusterRoleBinding"}}
    assert "subjects" not in with_patches(OBJECTS, patches=[content])[0]
    result = with_patches(OBJECTS, manifestPatches=["---\nkind: Service\nspec:\n  selector: null\n"])
    assert [list(obj["spec"]) for obj in result[1:]] == [["ports"], ["ports"]]


def test_patch_applies_to_the_result_of_earlier_patches() -> None:
    patches = [patch({"metadata": {"labels": {"new": "a"}}}, name="two"), patch(PORT, labelSelector="new=a")]
    assert with_patches(OBJECTS, patches=patches) == [*OBJECTS[:2], service("two", port=7777, new="a")]


# -- PA4: what a patch is for --------------------------------------------------------------------------------------

PLACES = [
    binding([], "same"),
    service("same"),
    service("same", namespace="other"),
    service("tall", size="2", tier="web"),
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "same", "namespace": "n"}},
    {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "old", "namespace": "n", "labels": []}},
]


def marked(**spec: Any) -> list[int]:
    """Places of the objects that have the annotation which the patches give."""
    result = with_patches(PLACES, **spec)
    return [place for place, obj in enumerate(result) if obj["metadata"].get("annotations") == {"marked": "yes"}]


MARK = {"annotations": {"marked": "yes"}}


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({"kind": "Deployment"}, [4, 5]),  # PA4: without apiVersion
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, [4]),
        ({"kind": "Deployment", "apiVersion": "extensions/v1beta1"}, []),
        ({"kind": "Service", "apiVersion": "v1"}, [1, 2, 3]),
        ({"kind": "Service", "metadata": {"name": "same"}}, [1, 2]),
        ({"kind": "Service", "metadata": {"name": "same", "namespace": "n"}}, [1]),
        ({"kind": "Service", "metadata": {"name": "same", "namespace": "elsewhere"}}, []),  # PA4: another namespace
        ({"kind": "Service", "metadata": {"namespace": "other"}}, [2]),
        ({"kind": "ClusterRoleBinding", "metadata": {"name": "same"}}, [0]),
        ({"kind": "ClusterRoleBinding", "metadata": {"name": "same", "namespace": "n"}}, []),
        ({"kind": "service"}, []),
    ],
    ids=str,
)
def test_manifest_patch_selects_objects_by_its_own_identity(matcher: Object, expected: list[int]) -> None:
    manifest = matcher | {"metadata": matcher.get("metadata", {}) | MARK}
    assert marked(manifestPatches=[text(manifest)]) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5]),  # PA4: no target
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"group": "", "kind": "", "labelSelector": ""}, [0, 1, 2, 3, 4, 5]),
        ({"group": "apps"}, [4, 5]),
        ({"version": "v1"}, [0, 1, 2, 3, 4]),
        ({"group": "apps", "version": "v1"}, [4]),
        ({"kind": "Service", "name": "same"}, [1, 2]),
        ({"name": "same"}, [0, 1, 2, 4]),
        ({"name": "same", "namespace": "n"}, [1, 4]),
        ({"namespace": "elsewhere"}, []),
        ({"labelSelector": "tier=web"}, [3]),  # PA4: label selector
        ({"labelSelector": "given,tier!=web"}, [1, 2]),
        ({"labelSelector": "!given"}, [0, 4, 5]),
        ({"kind": "Deployment", "labelSelector": "given"}, []),
    ],
    ids=str,
)
def test_patch_selects_objects_by_its_target(target: Any, expected: list[int]) -> None:
    given = {"target": target} if target is not None else {}
    assert marked(patches=[{"patch": text({"metadata": MARK}), **given}]) == expected


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"patches": [patch(LABEL)], "manifestPatches": [text(SERVICE)]},
            "spec.patches and spec.manifestPatches cannot be used together",
        ),
        (  # PA4: an operation that fails
            {"patches": [patch(LABEL), patch([{"op": "remove", "path": "/spec/x"}], kind="Service")]},
            "spec.patches[1]: Service n/one: operation 0 (remove /spec/x): can't remove a non-existent object 'x'",
        ),
        (
            {"patches": [patch([{"op": "test", "path": "/kind", "value": "Service"}])]},
            "spec.patches[0]: ClusterRoleBinding.rbac.authorization.k8s.io binding: operation 0 (test /kind): ",
        ),
        ({"patches": [{"patch": "a: [b"}]}, "spec.patches[0]: not YAML"),
        ({"patches": [{"patch": "a: 1\n---\nb: 2"}]}, "spec.patches[0]: not YAML: expected one YAML document"),
        ({"patches": [{"patch": "text"}]}, "spec.patches[0].patch: neither a list of operations nor a mapping"),
        ({"patches": [{"patch": ""}]}, "spec.patches[0].patch: neither a list of operations nor a mapping"),
        ({"patches": [{}]}, "spec.patches[0].patch: neither a list of operations nor a mapping"),
        ({"patches": [patch(["remove"])]}, "operation 0: needs op"),
        (
            {"patches": [patch(LABEL, labelSelector="a in b")]},
            "spec.patches[0].target.labelSelector: invalid label selector at 'a in b'; a valid one is a=b,",
        ),
        (
            {"patches": [patch({"kind": None}, name="two")]},
            "spec.patches[0]: Service n/two: the patched object needs apiVersion, kind and name",
        ),
        (
            {"patches": [patch({"metadata": {"name": 1}}, name="two")]},
            "the patched object needs apiVersion, kind and name",
        ),
        (
            {"patches": [patch({"metadata": {"namespace": []}}, name="two")]},
            "the patched object needs apiVersion, kind and name",
        ),
        (
            {"patches": [patch([{"op": "replace", "path": "", "value": "x"}], name="two")]},
            "the patched object needs apiVersion, kind and name",
        ),
        ({"manifestPatches": ["apiVersion: v1"]}, "spec.manifestPatches[0]: needs the kind"),
        ({"manifestPatches": [text(SERVICE), "- kind"]}, "spec.manifestPatches[1]: needs the kind"),
        ({"manifestPatches": ["kind: Service\nmetadata: {name: on}"]}, "spec.manifestPatches[0]: name must be text"),
        ({"manifestPatches": ["kind: [Service]"]}, "spec.manifestPatches[0]: kind must be text"),
        ({"manifestPatches": ["{"]}, "spec.manifestPatches[0]: not YAML"),
    ],
    ids=str,
)
def test_error_names_the_patch_and_the_object(spec: Object, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        with_patches(OBJECTS, **spec)
    assert message in str(caught.value)


def test_values_added_by_all_patches_are_limited() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    assert with_patches(OBJECTS, patches=[{"patch": bomb}])[0]["c"][9][9] == ["x"] * 10
    many = [service(f"s{number}") for number in range(200)]
    with pytest.raises(PatchError, match=r"^spec\.patches\[0\]: Service n/s[0-9]+: the patches add too many values"):
        with_patches(many, patches=[{"patch": bomb}])
