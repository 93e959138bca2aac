"""No pod that reads what tenants write has an account that amounts to cluster-admin, in any installation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from infra.generate import values
from shared.kube import Object, dig
from tests.support.rights import rules_of, too_much, violations

INFRA = Path(__file__).parents[3] / "infra"
MANIFESTS = INFRA / "manifests"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OVERLAYS = sorted(str(path.parent.relative_to(MANIFESTS)) for path in MANIFESTS.glob("profiles/*/*/kustomization.yaml"))


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
    objects = built(kubectl, "kustomize", str(MANIFESTS / folder))
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


@pytest.mark.parametrize("mode", ["single", "direct", "forwarder"])
def test_release_for_some_namespaces_binds_rights_there_only(mode: str, helm: Path) -> None:
    wanted = ("namespaces={a,b}", f"mode={mode}")
    for profile in ("standalone", "addons", *(("all",) if mode == "single" else ())):
        objects = chart(helm, *wanted, f"profile={profile}")
        assert not violations(objects)
        bindings = [obj for obj in objects if obj["kind"].endswith("RoleBinding")]
        for binding in bindings:
            role, holders = binding["roleRef"]["name"], {subject["name"] for subject in binding["subjects"]}
            if binding["kind"] == "ClusterRoleBinding":
                assert role.endswith("-everywhere") or holders == {"capi-functions-providers"}, role
            elif binding["roleRef"]["kind"] == "ClusterRole":
                places = {one["metadata"]["namespace"] for one in bindings if one["roleRef"] == binding["roleRef"]}
                assert places == {"a", "b"}, role
        everywhere = [
            (rule["resources"], {*rule["verbs"]} - {"get", "list", "watch"})
            for obj in objects
            if obj["metadata"]["name"].endswith("-everywhere")
            for rule in obj.get("rules", ())
        ]
        assert {name for resources, _ in everywhere for name in resources} <= {
            "customresourcedefinitions",
            "deployments",
            "validatingwebhookconfigurations",
            "apiserversources",
        }
        assert not any(writes for _, writes in everywhere)
        for obj in objects:
            if obj["kind"] == "Deployment":
                for container in obj["spec"]["template"]["spec"]["containers"]:
                    variables = {one["name"]: one.get("value") for one in container["env"]}
                    limited = obj["metadata"]["name"] != "capi-functions-providers"
                    assert variables.get("CAPI_FUNCTIONS_NAMESPACES") == ("a,b" if limited else "")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["mode=sources", "profile=standalone"], "ApiServerSources watch all namespaces"),
        (["mode=direct"], "profile=all has functions of providers, which need all namespaces"),
        (["mode=forwarder", "profile=addons-providers"], "has functions of providers, which need all namespaces"),
        (["profile=providers"], "has only functions that need all namespaces"),
        (["namespaces={Team_A}"], "values don't meet the specifications of the schema"),
    ],
)
def test_namespaces_that_rights_cannot_be_limited_to_are_refused(settings: list[str], words: str, helm: Path) -> None:
    chosen = [part for setting in ("namespaces={a}", *settings) for part in ("--set", setting)]
    command = [helm, "template", "release", str(INFRA / "chart"), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert words in done.stderr


def test_component_takes_the_rights_in_all_namespaces_and_an_overlay_gives_them_in_one(
    kubectl: Path, tmp_path: Path
) -> None:
    place = os.path.relpath(MANIFESTS / "single", tmp_path.resolve())
    (tmp_path / "team-a").mkdir()
    team = {"namespace": "team-a", "resources": [f"../{place}/namespaced/bindings"]}
    (tmp_path / "team-a/kustomization.yaml").write_text(yaml.safe_dump(team))
    whole = {"resources": [place, "team-a"], "components": [f"{place}/namespaced"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    objects = built(kubectl, "kustomize", str(tmp_path))
    assert not violations(objects)
    for binding in (obj for obj in objects if obj["kind"].endswith("RoleBinding")):
        (subject,) = binding["subjects"]
        assert subject["namespace"] == "capi-functions"
        of_cluster = binding["kind"] == "ClusterRoleBinding"
        if subject["name"] == "capi-functions" and of_cluster:
            assert binding["roleRef"]["name"].endswith("-everywhere")
        elif subject["name"] == "capi-functions" and binding["roleRef"]["kind"] == "ClusterRole":
            assert binding["metadata"]["namespace"] == "team-a"
    bound = {obj["roleRef"]["name"] for obj in objects if obj["metadata"].get("namespace") == "team-a"}
    assert bound >= {"capi-functions-addon-apply", "capi-functions-cluster-providers", "capi-functions-forwarder"}


def test_roles_that_others_add_to_are_those_of_cluster_api(helm: Path) -> None:
    """An aggregated role amounts to what the authors of ClusterRoles put into it."""
    aggregated = [obj for obj in chart(helm) if obj["kind"] == "ClusterRole" and "aggregationRule" in obj]
    labels = [dig(obj, "aggregationRule.clusterRoleSelectors") for obj in aggregated]
    assert labels == [[{"matchLabels": {"cluster.x-k8s.io/aggregate-to-manager": "true"}}]]
