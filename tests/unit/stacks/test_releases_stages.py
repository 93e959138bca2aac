import pytest

from shared.releases.stages import (
    AFTER_CLUSTER_UPGRADE,
    AFTER_CONTROL_PLANE_INITIALIZED,
    BEFORE_CLUSTER_UPGRADE,
    BoundObject,
    Stage,
    StageCondition,
    StagesError,
    parse,
)

FILE = b"""
apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1
clusterAddonVersion: clusteraddons.clusterstack.x-k8s.io/v1alpha1
addonStages:
  AfterControlPlaneInitialized:
    - name: cni
      action: apply
      waitForPostCondition:
        objects:
          - {key: cni, apiVersion: apps/v1, kind: DaemonSet, name: cilium, namespace: kube-system}
        conditions: |
          cni.status.numberReady == cni.status.desiredNumberScheduled
    - name: old
      action: delete
      timeout: 1h30m
  BeforeClusterUpgrade:
    - name: cni
"""


def test_stages_are_parsed_by_hook() -> None:
    stages = parse(FILE, "r")
    cni = BoundObject("cni", "apps/v1", "DaemonSet", "cilium", "kube-system")
    after = StageCondition("cni.status.numberReady == cni.status.desiredNumberScheduled", (cni,))
    assert stages.hooks == {
        AFTER_CONTROL_PLANE_INITIALIZED: (Stage("cni", "apply", after=after), Stage("old", "delete", timeout=5400.0)),
        BEFORE_CLUSTER_UPGRADE: (Stage("cni"),),
    }
    assert stages.unknown == ()
    assert stages.at(BEFORE_CLUSTER_UPGRADE) == (Stage("cni"),)
    assert stages.at(AFTER_CLUSTER_UPGRADE) == (Stage("cni"),)


def test_hook_without_stages_uses_those_of_another_hook() -> None:
    stages = parse(b"addonStages: {BeforeClusterUpgrade: [{name: a}]}", "r")
    assert stages.at(AFTER_CONTROL_PLANE_INITIALIZED) == (Stage("a"),)


def test_unknown_keys_are_reported_and_ignored() -> None:
    stages = parse(b"more: 1\naddonStages: {BeforeClusterUpgrade: [{name: a, waitFor: x}]}", "r")
    assert stages.unknown == ("more", "addonStages.BeforeClusterUpgrade[0].waitFor")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a mapping"),
        ("a: [", "not YAML"),
        ("apiVersion: v9\naddonStages: {}", "apiVersion: must be"),
        ("addonStages: {}", "has no stages"),
        ("addonStages: {SomeHook: []}", "addonStages.SomeHook: no such hook"),
        ("addonStages: {BeforeClusterUpgrade: {}}", "must be a list"),
        ("addonStages: {BeforeClusterUpgrade: [x]}", r"BeforeClusterUpgrade\[0\]: must be a mapping"),
        ("addonStages: {BeforeClusterUpgrade: [{action: apply}]}", "name: missing"),
        ("addonStages: {BeforeClusterUpgrade: [{name: ../x}]}", "is not a folder name"),
        ("addonStages: {BeforeClusterUpgrade: [{name: x, action: drop}]}", "must be apply or delete"),
        ("addonStages: {BeforeClusterUpgrade: [{name: x, timeout: soon}]}", "must be a duration"),
        (f"addonStages: {{BeforeClusterUpgrade: [{{name: x, timeout: {'9' * 5000}s}}]}}", "must be a duration"),
        (f"addonStages: {{BeforeClusterUpgrade: [{{name: x, timeout: {'9' * 400}s}}]}}", "must be a duration"),
        ("addonStages: {BeforeClusterUpgrade: [{name: x}, {name: x}]}", "occurs twice"),
        ("addonStages: {BeforeClusterUpgrade: [{name: x, waitForPreCondition: {objects: []}}]}", "conditions: missing"),
        (
            "addonStages: {BeforeClusterUpgrade: [{name: x, waitForPreCondition: "
            "{conditions: a, objects: [{key: a, kind: Pod, name: p}]}}]}",
            "apiVersion: missing",
        ),
    ],
)
def test_invalid_stages_are_an_error_with_their_path(text: str, words: str) -> None:
    with pytest.raises(StagesError, match=words):
        parse(text.encode(), "r")
