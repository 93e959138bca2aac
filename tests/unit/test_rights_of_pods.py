"""No pod that reads what tenants write has an account that amounts to cluster-admin, in any installation."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from infra.generate import values
from shared.kube import Object, dig
from tests.support.rights import rules_of, too_much, violations

INFRA = Path(__file__).parents[2] / "infra"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OVERLAYS = sorted(str(path.parent.relative_to(INFRA)) for path in INFRA.glob("profiles/*/*/kustomization.yaml"))


def built(program: Path, *arguments: str) -> list[Object]:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.load_all(done.stdout, Loader) if obj]


def chart(helm: Path, *settings: str) -> list[Object]:
    chosen = [part for setting in ("crds.install=false", "hooks=true", *settings) for part in ("--set", setting)]
    return built(helm, "template", "release", str(INFRA / "chart"), "--namespace=capi-functions", *chosen)


@pytest.mark.parametrize("mode", [*values.MODES])
def test_no_release_gives_a_pod_more_rights_than_its_functions_may_have(mode: str, helm: Path) -> None:
    for profile in values.PROFILES:
        objects = chart(helm, f"mode={mode}", f"profile={profile}")
        assert not violations(objects), profile
        mighty = {account for account, rules in rules_of(objects).items() if [*too_much(rules)]}
        runs = profile == "all" or "providers" in profile
        allowed = {"capi-functions-providers"} if mode == "single" else {"provider-install", "provider-delete"}
        assert mighty == (allowed if runs else set()), profile


@pytest.mark.parametrize("folder", ["single", "forwarder", "sources", "serving", *OVERLAYS])
def test_no_kustomization_gives_a_pod_more_rights_than_its_functions_may_have(folder: str, kubectl: Path) -> None:
    objects = built(kubectl, "kustomize", str(INFRA / folder))
    assert not violations(objects)
    if folder.endswith("single"):
        pods = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Deployment"}
        accounts = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ServiceAccount"}
        holders = {*rules_of(objects)}
        assert holders <= pods, "a right is bound to an account that no pod has"
        assert accounts == pods


def _shared(objects: list[Object]) -> None:
    """All functions have one account, as in the installation of earlier versions."""
    for obj in objects:
        if obj["kind"] == "ClusterRoleBinding" and obj["metadata"]["name"] == "capi-functions-provider-install":
            obj["subjects"].append({"kind": "ServiceAccount", "name": "capi-functions"})


def _served_by_providers(objects: list[Object]) -> None:
    for obj in objects:
        if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "capi-functions-providers":
            functions = obj["spec"]["template"]["spec"]["containers"][0]
            functions["env"] = [one for one in functions["env"] if one["name"] != "CAPI_FUNCTIONS_PROFILES"]


def _without_policy(objects: list[Object]) -> None:
    objects[:] = [obj for obj in objects if obj["kind"] != "ValidatingAdmissionPolicyBinding"]


def _granting(**rule: list[str]) -> Callable[[list[Object]], None]:
    def grant(objects: list[Object]) -> None:
        for obj in objects:
            if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == "capi-functions-sweep":
                obj["rules"].append(rule)

    return grant


@pytest.mark.parametrize(
    "spoil",
    [
        _shared,
        _served_by_providers,
        _without_policy,
        _granting(apiGroups=["*"], resources=["*"], verbs=["get"]),
        _granting(apiGroups=["rbac.authorization.k8s.io"], resources=["clusterroles"], verbs=["escalate"]),
        _granting(apiGroups=["rbac.authorization.k8s.io"], resources=["*"], verbs=["*"]),
        _granting(apiGroups=["rbac.authorization.k8s.io"], resources=["clusterrolebindings"], verbs=["create"]),
        _granting(apiGroups=[""], resources=["users"], verbs=["impersonate"]),
        _granting(apiGroups=["admissionregistration.k8s.io"], resources=["*"], verbs=["patch"]),
        _granting(apiGroups=["apiextensions.k8s.io"], resources=["customresourcedefinitions"], verbs=["update"]),
        _granting(apiGroups=[""], resources=["serviceaccounts/token"], verbs=["create"]),
        _granting(apiGroups=["apps"], resources=["deployments"], verbs=["patch"]),
        _granting(apiGroups=[""], resources=["*"], verbs=["create"]),
    ],
)
def test_installation_with_too_many_rights_is_found(spoil: Callable[[list[Object]], None], helm: Path) -> None:
    objects = deepcopy(chart(helm))
    assert not violations(objects)
    spoil(objects)
    assert violations(objects)


def test_roles_that_others_add_to_are_those_of_cluster_api(helm: Path) -> None:
    """An aggregated role amounts to what the authors of ClusterRoles put into it."""
    aggregated = [obj for obj in chart(helm) if obj["kind"] == "ClusterRole" and "aggregationRule" in obj]
    labels = [dig(obj, "aggregationRule.clusterRoleSelectors") for obj in aggregated]
    assert labels == [[{"matchLabels": {"cluster.x-k8s.io/aggregate-to-manager": "true"}}]]
