import pytest

from shared.addons.owner import OWNER
from shared.applier.policy import IgnoredPath, Policy, PolicyError


def annotated(**values: str) -> dict[str, object]:
    annotations = {f"capi-functions.dev/{name.replace('_', '-')}": value for name, value in values.items()}
    return {"metadata": {"name": "c", "annotations": annotations}}


def test_policy_without_annotations_has_defaults() -> None:
    assert Policy.of(OWNER, {"metadata": {"name": "c"}}) == Policy(OWNER)


@pytest.mark.parametrize(
    ("annotations", "policy"),
    [
        ({"conflicts": "force"}, Policy(OWNER)),
        ({"conflicts": "fail"}, Policy(OWNER, conflicts="fail")),
        ({"conflicts": "yield"}, Policy(OWNER, conflicts="yield")),
        ({"drift": "ignore"}, Policy(OWNER)),
        ({"drift": "report"}, Policy(OWNER, drift="report")),
        ({"drift": "repair"}, Policy(OWNER, drift="repair")),
        ({"drift_ignore": " , "}, Policy(OWNER)),
        ({"recreate": "true"}, Policy(OWNER, recreate=True)),
        ({"recreate": "false"}, Policy(OWNER)),
        ({"prune_crds": "true"}, Policy(OWNER, prune_crds=True)),
        ({"prune_crds": "false"}, Policy(OWNER)),
        ({"wait": "false"}, Policy(OWNER, wait=False)),
        ({"wait": "true"}, Policy(OWNER)),
        ({"wait_timeout": "1"}, Policy(OWNER, wait_timeout=1.0)),
        ({"wait_timeout": "86400"}, Policy(OWNER, wait_timeout=86400.0)),
    ],
)
def test_each_annotation_sets_its_part_of_the_policy(annotations: dict[str, str], policy: Policy) -> None:
    assert Policy.of(OWNER, annotated(**annotations)) == policy


@pytest.mark.parametrize(
    ("ignored", "covered"),
    [
        (IgnoredPath("p"), True),
        (IgnoredPath("p", "*"), True),
        (IgnoredPath("p", "Job"), False),
        (IgnoredPath("p", "Node", "", "n"), True),
        (IgnoredPath("p", "Node", "", "other"), False),
        (IgnoredPath("p", "Node", "ns", "n"), False),
    ],
)
def test_ignored_path_covers_an_object_without_namespace(ignored: IgnoredPath, covered: bool) -> None:
    assert ignored.covers({"kind": "Node", "metadata": {"name": "n"}}) is covered


def test_annotations_of_a_later_object_take_precedence() -> None:
    policy = Policy.of(
        OWNER, annotated(conflicts="fail", drift="report"), annotated(conflicts="yield", wait_timeout="60")
    )
    assert (policy.conflicts, policy.drift, policy.wait_timeout) == ("yield", "report", 60.0)


def test_drift_ignore_lists_paths_with_optional_objects() -> None:
    policy = Policy.of(
        OWNER, annotated(drift_ignore="spec.replicas, Deployment:spec.paused,ConfigMap/ns/name:.data.k,Job/j:x")
    )
    assert policy.ignored == (
        IgnoredPath("spec.replicas"),
        IgnoredPath("spec.paused", "Deployment"),
        IgnoredPath("data.k", "ConfigMap", "ns", "name"),
        IgnoredPath("x", "Job", "", "j"),
    )
    config = {"kind": "ConfigMap", "metadata": {"name": "name", "namespace": "ns"}}
    assert [one.covers(config) for one in policy.ignored] == [True, False, True, False]


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"conflicts": "maybe"}, "conflicts is 'maybe'; it must be one of force, fail, yield"),
        ({"drift": "on"}, "ignore, report, repair"),
        ({"wait": "no"}, "true, false"),
        ({"wait_timeout": "soon"}, "in seconds"),
        ({"wait_timeout": "0"}, "in seconds"),
        ({"wait_timeout": "86401"}, "1 to 86400, in seconds"),
        ({"wait_timeout": "1.5"}, "in seconds"),
        ({"wait_timeout": "9" * 5000}, "in seconds"),
        ({"drift": ""}, "ignore, report, repair"),
        ({"recreate": "yes"}, "recreate is 'yes'; it must be one of false, true"),
        ({"prune_crds": "yes"}, "prune-crds is 'yes'; it must be one of false, true"),
        ({"drift_ignore": ":spec"}, ":spec"),
        ({"drift_ignore": "a/b/c/d:x"}, "a/b/c/d:x"),
        ({"drift_ignore": "ConfigMap:"}, "ConfigMap:"),
        ({"drift_ignore": "a" * 1025}, "more than 1024 characters: shorten it"),
        ({"drift_ignore": "a," * 101}, "more than 100 paths: name fewer fields"),
    ],
)
def test_invalid_value_is_rejected_with_the_allowed_ones(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        Policy.of(OWNER, annotated(**annotations))


@pytest.mark.parametrize("name", ["wiat", "prune_crd", "conflict", "wait_timeouts", "drift_ignored"])
def test_misspelled_annotation_is_rejected_with_a_suggestion(name: str) -> None:
    with pytest.raises(PolicyError, match="did you mean"):
        Policy.of(OWNER, annotated(**{name: "true"}))


def test_unrelated_annotation_with_our_prefix_is_ignored() -> None:
    assert Policy.of(OWNER, annotated(source="x", cleanup="y", hook_awaited="z", force_delete="true")) == Policy(OWNER)
