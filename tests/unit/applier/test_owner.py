"""The owner of a live object by labels, uid and field manager."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.api.names import OWNED, OWNED_LABEL
from shared.applier.inventory import InventoryEntry
from shared.applier.owner import Mark, Owner
from shared.kube import MANAGER, Object
from shared.manifests import Identity

LABEL = "cluster.x-k8s.io/provider"
COMMON = {OWNED_LABEL: OWNED}
MARK = Mark({LABEL: "mine"})
ALONE, ONE_OF_SEVERAL = Owner("Cluster", COMMON), Owner("CoreProvider", COMMON, MARK)
MINE, ANOTHERS = {**COMMON, LABEL: "mine"}, {**COMMON, LABEL: "another's"}
APPLIED, UPDATED = {"manager": MANAGER, "operation": "Apply"}, {"manager": MANAGER, "operation": "Update"}
THEIRS = {"manager": "kubectl", "operation": "Apply"}


def there(labels: dict[str, str], uid: str, *managers: Object) -> Object:
    return {"metadata": {"name": "a", "uid": uid, "labels": labels, "managedFields": list(managers)}}


@pytest.mark.parametrize(
    ("labels", "uid", "manager", "alone", "one_of_several"),
    [
        pytest.param(COMMON, "1", APPLIED, True, True, id="as it was applied"),
        pytest.param({}, "1", APPLIED, False, False, id="without the common label"),
        pytest.param({LABEL: "mine"}, "1", APPLIED, False, False, id="the mark alone"),
        pytest.param(COMMON, "2", APPLIED, False, False, id="recreated without a mark"),
        pytest.param(MINE, "1", THEIRS, True, True, id="written by others since"),
        pytest.param(MINE, "2", APPLIED, False, True, id="recreated by us"),
        pytest.param(MINE, "2", UPDATED, False, False, id="recreated, not applied"),
        pytest.param(MINE, "2", THEIRS, False, False, id="recreated by others with our labels"),
        pytest.param(ANOTHERS, "1", APPLIED, True, False, id="of another owner now"),
        pytest.param(ANOTHERS, "2", APPLIED, False, False, id="of another owner, recreated"),
    ],
)
def test_owner_has_an_object_by_label_uid_and_field_manager(
    labels: dict[str, str], uid: str, manager: Object, *, alone: bool, one_of_several: bool
) -> None:
    entry = InventoryEntry("", "v1", "ConfigMap", "ns", "a", uid="1")
    live = there(labels, uid, manager)
    assert (ALONE.has(live, entry), ONE_OF_SEVERAL.has(live, entry)) == (alone, one_of_several)


@pytest.mark.parametrize(
    ("labels", "alone", "one_of_several"), [(MINE, True, True), (ANOTHERS, True, False), ({}, False, False)]
)
def test_entry_without_a_uid_is_owned_by_label(labels: dict[str, str], *, alone: bool, one_of_several: bool) -> None:
    live = there(labels, "1", THEIRS)
    assert (ALONE.has(live), ONE_OF_SEVERAL.has(live)) == (alone, one_of_several)


# -- exclusive owners --------------------------------------------------------------------------------------------

WHO = Identity("", "ConfigMap", "ns", "a")
ENTRY = InventoryEntry("", "v1", "ConfigMap", "ns", "a", uid="1")


def exclusive(*recorded: str, adopts: bool = False) -> Owner:
    """Returns the owner; `recorded` are the uids of the object in inventories."""
    applied = frozenset((WHO, uid) for uid in recorded)
    return Owner("ClusterStackRelease", COMMON, MARK, exclusive=True, recorded=applied, adopts=adopts)


@pytest.mark.parametrize(
    ("labels", "uid", "manager", "recorded", "has"),
    [
        pytest.param(MINE, "1", APPLIED, (), True, id="marked and applied"),
        pytest.param(MINE, "2", APPLIED, (), True, id="marked and applied, recreated"),
        pytest.param(MINE, "1", THEIRS, (), False, id="copied with its labels"),
        pytest.param(MINE, "1", THEIRS, ("1",), True, id="restored without field managers"),
        pytest.param(COMMON, "1", APPLIED, ("1",), True, id="of an earlier version"),
        pytest.param(COMMON, "1", APPLIED, (), False, id="applied for another owner"),
        pytest.param(COMMON, "1", APPLIED, ("2",), False, id="of an earlier version, recreated since"),
        pytest.param(COMMON, "1", THEIRS, ("",), True, id="of cluster-stack-operator, which records no uid"),
        pytest.param(ANOTHERS, "1", APPLIED, ("1", ""), False, id="of another owner"),
        pytest.param({}, "1", APPLIED, ("1", ""), False, id="without the common label"),
    ],
)
def test_exclusive_owner_has_what_it_has_marked_and_applied_or_recorded(
    labels: dict[str, str], uid: str, manager: Object, recorded: tuple[str, ...], has: bool
) -> None:
    owner = exclusive(*recorded)
    live = {"apiVersion": "v1", "kind": "ConfigMap", **there(labels, uid, manager)}
    live["metadata"]["namespace"] = "ns"
    assert (owner.has(live), owner.refusal(live) == "") == (has, has)
    assert owner.has(live, ENTRY) is (has and (uid == "1" or labels == MINE))


@pytest.mark.parametrize(
    ("labels", "adopts", "words"),
    [
        (COMMON, False, "it exists, written by kubectl, and was not applied for mine"),
        (COMMON, True, ""),
        ({}, True, ""),
        (ANOTHERS, True, f'its label {LABEL} names "another\'s"'),
    ],
)
def test_exclusive_owner_refuses_objects_of_others(labels: dict[str, str], adopts: bool, words: str) -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", **there(labels, "1", THEIRS)}
    refusal = exclusive(adopts=adopts).refusal(live)
    assert words in refusal
    assert bool(words) is bool(refusal)
    assert ONE_OF_SEVERAL.refusal(live) == ""


@pytest.mark.parametrize(
    ("precedence", "adopts", "refusal"),
    [("it comes first", True, "it comes first"), ("", False, ""), (None, True, "its label")],
)
def test_precedence_decides_before_adoption(precedence: str | None, adopts: bool, refusal: str) -> None:
    owner = replace(exclusive(adopts=adopts), precedence=lambda _mark: precedence)
    live = {"apiVersion": "v1", "kind": "ConfigMap", **there(ANOTHERS, "1", THEIRS)}
    found = owner.refusal(live)
    assert (refusal in found, bool(found)) == (True, bool(refusal))
    mine = {"apiVersion": "v1", "kind": "ConfigMap", **there(MINE, "1", APPLIED)}
    assert owner.refusal(mine) == ""


# -- an owner whose mark is in annotations -----------------------------------------------------------------------

NAMESPACED, NAMED = "meta.helm.sh/release-namespace", "meta.helm.sh/release-name"
HELM = {"app.kubernetes.io/managed-by": "Helm"}
RELEASE = Owner(
    "HelmReleaseProxy", HELM, Mark({NAMESPACED: "apps", NAMED: "web"}, "annotations"), "helm-web", exclusive=True
)
ITS = {"manager": "helm-web", "operation": "Apply"}


@pytest.mark.parametrize(
    ("annotations", "manager", "words"),
    [
        pytest.param({NAMESPACED: "apps", NAMED: "web"}, ITS, "", id="its own"),
        pytest.param({NAMESPACED: "apps", NAMED: "web"}, APPLIED, "'apps/web'", id="applied by another manager"),
        pytest.param({NAMESPACED: "other", NAMED: "web"}, ITS, "'other/web'", id="of another namespace"),
        pytest.param({NAMESPACED: "apps", NAMED: "db"}, ITS, "'apps/db'", id="of another release"),
        pytest.param({NAMED: "web"}, ITS, "'/web'", id="with half of the mark"),
        pytest.param({}, ITS, "was not applied for apps/web", id="without a mark"),
        pytest.param({NAMESPACED: "x" * 9000, NAMED: "web"}, ITS, "'xxx", id="a long mark"),
    ],
)
def test_mark_of_two_annotations(annotations: dict[str, str], manager: Object, words: str) -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", **there(HELM, "1", manager)}
    live["metadata"]["annotations"] = annotations
    refusal = RELEASE.refusal(live)
    assert RELEASE.has(live) is (words == "")
    assert (words in refusal, bool(refusal), len(refusal) < 400) == (True, bool(words), True)


def test_objects_get_labels_and_mark_of_their_owner() -> None:
    given: Object = {"name": "a", "labels": {"a": "b"}, "annotations": None}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": given}
    metadata = RELEASE.marked(obj)["metadata"]
    assert metadata["labels"] == {"a": "b", **HELM}
    assert metadata["annotations"] == {NAMESPACED: "apps", NAMED: "web"}
    assert ONE_OF_SEVERAL.marked(obj)["metadata"]["labels"] == {"a": "b", **MINE}
    assert ALONE.marked(obj)["metadata"] == {**given, "labels": {"a": "b", **COMMON}}
