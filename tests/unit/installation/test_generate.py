"""The generators, on small declarations; the generated files in the repository are up to date."""

import operator
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import Field

from functions import catalog
from infra.generate import crds, docs, eventing, knative, profiles, rbac
from infra.generate.__main__ import PROJECT, generated, stale, write
from infra.generate.files import NOTICE, yaml_text
from shared.api.models import CUSTOM_RESOURCES, Model
from shared.api.provider import GROUP, KINDS
from shared.api.resources import CLUSTER, CONFIG_MAP, SECRET
from shared.applier.policy import CHOICES, PREFIX
from shared.event import OWN, REFERENCE, Change, change_event
from shared.providers import annotations
from shared.releases.naming import PATTERN
from shared.settings import HOOKS, STORAGE
from shared.triggers import Rule, Subscription, Triggers, Watch

# -- CRDs --------------------------------------------------------------------------------------------------------


class Inner(Model):
    """An inner thing."""

    title: str = "a field of that name is not a title"


class Outer(Model):
    needed: str | None
    inner_list: list[Inner] | None = None
    inner: Inner = Field(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """In its place."""
    choice: Literal["a", "b"] = "a"
    one: Literal["only"] | None = None
    by_name: dict[str, Inner] | None = None
    short: str | None = Field("x", max_length=3, pattern="^x")


def test_schema_is_structural() -> None:
    inner = {
        "type": "object",
        "description": "An inner thing.",
        "properties": {"title": {"type": "string", "default": "a field of that name is not a title"}},
    }
    assert crds.schema(Outer) == {
        "type": "object",
        "required": ["needed", "inner"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "needed": {"type": "string", "nullable": True},
            "innerList": {"type": "array", "items": inner},
            "inner": inner | {"description": "In its place.", "x-kubernetes-map-type": "atomic"},
            "choice": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "one": {"type": "string", "enum": ["only"]},
            "byName": {"type": "object", "additionalProperties": inner},
            "short": {"type": "string", "default": "x", "maxLength": 3, "pattern": "^x"},
        },
    }


def test_unions_are_refused() -> None:
    class Either(Model):
        value: int | str | None = None

    with pytest.raises(ValueError, match="no unions"):
        crds.schema(Either)


def test_crds_contain_no_keywords_beyond_structural_schemas() -> None:
    text = yaml.safe_dump_all([crds.definition(custom) for custom in CUSTOM_RESOURCES])
    for word in ("$ref", "$defs", "anyOf", "title:", "const:", "&id"):
        assert word not in text


def test_crds_have_contract_labels_and_versions() -> None:
    by_kind = {custom.resource.kind: crds.definition(custom) for custom in CUSTOM_RESOURCES}
    assert by_kind["KINDCluster"]["metadata"]["labels"] == {
        "cluster.x-k8s.io/v1beta1": "v1alpha1",
        "cluster.x-k8s.io/v1beta2": "v1alpha1",
    }
    versions = by_kind["Cluster"]["spec"]["versions"]
    assert [(version["name"], version["storage"]) for version in versions] == [("v1beta2", True), ("v1beta1", False)]


def test_helm_never_deletes_a_crd_of_the_kustomization_that_it_has_taken_over() -> None:
    keep = {"helm.sh/resource-policy": "keep"}
    marks = {c.resource.group: crds.definition(c)["metadata"].get("annotations") for c in CUSTOM_RESOURCES}
    assert marks.pop(CLUSTER.group) is None, "its provider decides"
    assert [*marks.values()] == [keep] * len(marks)
    assert all(crds.kept(custom)["metadata"]["annotations"] == keep for custom in CUSTOM_RESOURCES), "of the chart"


def test_kinds_of_cluster_api_have_a_kustomization_of_their_own() -> None:
    files = crds.files(CUSTOM_RESOURCES)
    listed = {
        folder + name
        for folder in ("", "cluster/")
        for name in ("kustomization.yaml", *yaml.safe_load(files[f"{folder}kustomization.yaml"])["resources"])
    }
    assert listed == files.keys()
    assert {path for path in files if path.startswith("cluster/")} == {
        "cluster/cluster.x-k8s.io_clusters.yaml",
        "cluster/cluster.x-k8s.io_clusterclasses.yaml",
        "cluster/addons.cluster.x-k8s.io_clusterresourcesets.yaml",
        "cluster/addons.cluster.x-k8s.io_clusterresourcesetbindings.yaml",
        "cluster/kustomization.yaml",
    }


@pytest.mark.parametrize("profile", ["-".join(combination) for combination in profiles.COMBINATIONS])
def test_overlays_for_use_beside_a_core_leave_out_its_kinds(profile: str, kubectl: Path) -> None:
    command = [kubectl, "kustomize", str(PROJECT / "infra/manifests/profiles" / profile / "single")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    objects = [obj for obj in yaml.load_all(done.stdout, loader) if obj["kind"] == "CustomResourceDefinition"]
    names = {obj["metadata"]["name"] for obj in objects}
    assert "providers.clusterctl.cluster.x-k8s.io" in names
    for brought in ("clusters.cluster.x-k8s.io", "clusterresourcesets.addons.cluster.x-k8s.io"):
        assert (brought in names) == ("standalone" in profile)
    assert "helmchartproxies.addons.cluster.x-k8s.io" in names


# -- Eventing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", {"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        ("!a/b", {"matchExpressions": [{"key": "a/b", "operator": "DoesNotExist"}]}),
        ("a=b", {"matchLabels": {"a": "b"}}),
        ("a==b, c=", {"matchLabels": {"a": "b", "c": ""}}),
        ("x.y/z,a=b", {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "x.y/z", "operator": "Exists"}]}),
    ],
)
def test_label_selector_is_converted(text: str, expected: Any) -> None:
    assert eventing.label_selector(text) == expected


@pytest.mark.parametrize("text", ["", "a in (b,c)", "a!=b", "!a=b", "a=b=c"])
def test_unsupported_label_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="label selector"):
        eventing.label_selector(text)


def test_source_watches_each_kind_once() -> None:
    same = [Watch(SECRET, selector="a"), Watch(CLUSTER), Watch(SECRET, selector="a")]
    assert eventing.selectors(same) == {SECRET: "a", CLUSTER: ""}
    different = [Watch(SECRET, selector="a"), Watch(SECRET, selector="b"), Watch(SECRET, selector="b")]
    assert eventing.selectors(different) == {SECRET: ""}


def passes(filters: Any, attributes: dict[str, str]) -> bool:
    """Evaluates the dialects of Knative's filters that the generators use."""

    def holds(one: dict[str, Any]) -> bool:
        ((dialect, wanted),) = one.items()
        if dialect == "any":
            return any(holds(nested) for nested in wanted)
        if dialect == "not":
            return not holds(wanted)
        tests: dict[str, Callable[[str, str], bool]]
        tests = {"exact": operator.eq, "prefix": str.startswith, "suffix": str.endswith}
        return all(name in attributes and tests[dialect](attributes[name], value) for name, value in wanted.items())

    return all(holds(one) for one in filters)


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("change", ["add", "update", "delete"])
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("cluster.x-k8s.io/v1beta2", "Cluster"),
        ("cluster.x-k8s.io/v1beta1", "Cluster"),
        ("cluster.x-k8s.io/v1beta2", "Machine"),
        ("management.example/v1", "Cluster"),
        ("v1", "Secret"),
        ("example.dev/v1", "Secret"),
        ("clusterstack.x-k8s.io/v1alpha1", "ClusterAddon"),
        ("infrastructure.cluster-k8s.io/v1alpha1", "KINDCluster"),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "DockerCluster"),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "DockerMachine"),
        ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"),
    ],
)
def test_trigger_passes_the_events_that_the_declaration_accepts(
    api_version: str, kind: str, change: Change, reference: bool
) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "n", "name": "c-kubeconfig"}}
    event = change_event(obj, change, source="/test", reference=reference)
    for triggers in catalog.triggers().values():
        watch = triggers.watch(event)
        declared = watch is not None and change in watch.changes
        let_in = [
            trigger
            for trigger in eventing.triggers_of(triggers, "name")
            if passes(trigger["spec"]["filters"], event.attributes())
        ]
        assert len(let_in) == declared, triggers.name


# -- RBAC --------------------------------------------------------------------------------------------------------


def test_function_may_read_its_kinds_write_their_status_and_follow_its_rules() -> None:
    triggers = Triggers(
        "f", (Watch(CLUSTER), Watch(SECRET, reference=True)), rules=(Rule("", ("configmaps",), ("get",)),)
    )
    primary = {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["get"]}
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    assert rbac.function_rules(triggers) == [
        maps,
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "create", "patch"]},
        primary,
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters/status"], "verbs": ["patch"]},
    ]
    assert rbac.function_rules(replace(triggers, reports=False)) == [maps, primary]
    assert rbac.function_rules(Triggers("timer")) == []


def test_watch_by_reference_gives_no_right_to_read_secrets() -> None:
    wake = rbac.function_rules(catalog.triggers()["provider_wake"])
    assert not [rule for rule in wake if {"secrets", "*"} & {*rule["resources"]}]


@pytest.mark.parametrize("name", [name for name in catalog.names() if name != "provider_install"])
def test_only_the_installer_may_change_objects_of_any_kind(name: str) -> None:
    everywhere = [rule for rule in rbac.function_rules(catalog.triggers()[name]) if "*" in rule["apiGroups"]]
    assert all({*rule["verbs"]} <= {"get", "list", "delete"} for rule in everywhere)
    assert not everywhere or name == "provider_delete"


def test_rules_are_merged_by_resource_and_group() -> None:
    rules = [Rule("g", ("b", "a"), ("get",)), Rule("g", ("c",), ("patch", "get")), Rule("g", ("b",), ("get",))]
    assert rbac.policy_rules(rules) == [
        {"apiGroups": ["g"], "resources": ["a", "b"], "verbs": ["get"]},
        {"apiGroups": ["g"], "resources": ["c"], "verbs": ["get", "patch"]},
    ]


# -- whole files -------------------------------------------------------------------------------------------------

SYNTHETIC = {
    "look_at": Triggers(
        "look_at",
        (Watch(CONFIG_MAP, fields=("data",), changes=("add", "delete"), selector="a=b"),),
        (Subscription(OWN + "thing.wanted", lambda event: event.key),),
    ),
}


def test_declaration_becomes_manifests_and_docs() -> None:
    files = knative.files(SYNTHETIC)
    assert "PingSource" not in files["timers.yaml"], "no subscription to a timer"
    objects = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(files["function-look-at.yaml"])}
    assert ("Trigger", "look-at-configmap") in objects
    assert objects["Trigger", "look-at-thing-wanted"]["spec"]["filters"] == [
        {"exact": {"type": "dev.capi-functions.thing.wanted"}}
    ]
    (container,) = objects["Deployment", "look-at"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == 'functions_framework:create_app("look_at", "functions/main.py")'
    assert "| `look_at` | ConfigMap | `data`; label `a=b` | add, delete |\n" in docs.triggers_page(SYNTHETIC)


def test_comments_are_above_their_object() -> None:
    assert yaml_text([("one\n\ntwo\n", {"a": 1})]) == f"# {NOTICE}\n---\n# one\n#\n# two\na: 1\n"


@pytest.mark.parametrize("emits", [(), (REFERENCE + "update",)])
def test_function_that_emits_events_has_a_sink_binding(emits: tuple[str, ...]) -> None:
    files = knative.files({"look_at": replace(SYNTHETIC["look_at"], emits=emits)})
    objects = list(yaml.safe_load_all(files["function-look-at.yaml"]))
    bound = [o["spec"]["subject"]["name"] for o in objects if o["kind"] == "SinkBinding"]
    assert bound == ["look-at"] * len(emits)


def test_declared_settings_are_mounted() -> None:
    files = knative.files({"look_at": replace(SYNTHETIC["look_at"], settings=(STORAGE, HOOKS))})
    (deployment,) = (o for o in yaml.safe_load_all(files["function-look-at.yaml"]) if o["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    sources = next(volume["projected"]["sources"] for volume in pod["volumes"] if "projected" in volume)
    names = [(kind, source["name"]) for entry in sources for kind, source in entry.items()]
    assert names == [(kind, group.name) for group in (STORAGE, HOOKS) for kind in ("configMap", "secret")]
    assert all(source["optional"] for entry in sources for source in entry.values())


def test_local_function_is_not_in_the_manifests() -> None:
    declared = {"look_at": SYNTHETIC["look_at"], "here": Triggers("here", local=True)}
    assert knative.files(declared) == knative.files({"look_at": SYNTHETIC["look_at"]})
    assert [name for name, triggers in catalog.triggers().items() if triggers.local] == ["kind_cluster"]


def test_stale_files_are_written_and_leftovers_deleted(tmp_path: Path) -> None:
    wanted = {"infra/manifests/crds/a.yaml": f"# {NOTICE}\na\n", "docs/b.md": "b\n"}
    assert stale(wanted, tmp_path) == wanted
    write(wanted, tmp_path)
    assert stale(wanted, tmp_path) == {}
    (tmp_path / "infra/manifests/crds/old.yaml").write_text(f"# {NOTICE}\n")
    (tmp_path / "infra/manifests/crds/own.yaml").write_text("written by hand\n")
    (tmp_path / "docs/b.md").write_text("edited\n")
    changed = stale(wanted, tmp_path)
    assert changed == {"docs/b.md": "b\n", "infra/manifests/crds/old.yaml": None}
    write(changed, tmp_path)
    assert stale(wanted, tmp_path) == {}
    assert not (tmp_path / "infra/manifests/crds/old.yaml").exists()


def test_generated_files_are_up_to_date() -> None:
    assert stale(generated(catalog.triggers()), PROJECT) == {}, "run `python -m infra.generate`"


def test_admission_policies_have_the_rules_of_the_functions() -> None:
    policies = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in yaml.safe_load_all((PROJECT / "infra/manifests/admission/policies.yaml").read_text())
        if obj["kind"] == "ValidatingAdmissionPolicy"
    }
    releases = [each["expression"] for each in policies["capi-functions-clusters"]["variables"]]
    assert sum(f"'^(?:{PATTERN})$'" in expression for expression in releases) == 2
    [rule] = policies["capi-functions-providers"]["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == ([GROUP], [kind.resource.plural for kind in KINDS])
    known = {
        **{PREFIX + name: CHOICES[name] for name in ("conflicts", "wait")},
        annotations.CERTIFICATES: annotations.ISSUERS,
        annotations.FORCE_DELETE: ("true", "false"),
        annotations.KEEP_DOWNLOAD: annotations.DOWNLOADS,
    }
    validations = policies["capi-functions-providers"]["validations"][1:]
    for validation, (name, values) in zip(validations, known.items(), strict=True):
        assert f"variables.annotations['{name}'] in {[*values]}" in validation["expression"]
        assert validation["message"] == f"annotation {name} must be one of {', '.join(values)}"
