"""`provider render`: renders files to manifests, and reports files that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.operations import manifests
from shared import bounded_yaml
from shared.kube import Object

PROVIDER = """
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: InfrastructureProvider
metadata: {name: x, namespace: to}
spec:
  version: v1.2.3
  configSecret: {name: settings}
  additionalManifests: {name: more}
  deployment: {replicas: 3}
"""
COMPONENTS = """
apiVersion: v1
kind: Namespace
metadata: {name: from}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {region: "${REGION}", zone: "${ZONE:=y}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec: {template: {spec: {containers: []}}}
"""
METADATA = """
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 2, contract: v1beta2}, {major: 0, minor: 1, contract: v1alpha3}]
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: settings}\n"
MORE = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {manifests: "%s"}\n'
FILES = {
    "provider": PROVIDER,
    "components": COMPONENTS,
    "metadata": METADATA,
    "secret": SECRET + "data: {REGION: bm9ydGg=}",
    "additional": MORE % r"apiVersion: v1\nkind: Pod\nmetadata: {name: p}",
}


class Outcome(NamedTuple):
    code: int
    objects: list[Object]
    stderr: str


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "none"))


def run(folder: Path, **files: str | None) -> Outcome:
    """Runs the command with the files above; `files` replaces some, or leaves out those that are None."""
    arguments = ["provider", "render"]
    for name, text in {**FILES, **files}.items():
        if text is not None:
            (folder / name).write_bytes(text.encode("latin-1"))
            arguments += [f"--{name}", str(folder / name)]
    result = CliRunner().invoke(app, arguments)
    return Outcome(result.exit_code, list(bounded_yaml.load_all(result.stdout)), " ".join(result.stderr.split()))


def test_render_prints_all_objects_of_a_provider(tmp_path: Path) -> None:
    code, objects, stderr = run(tmp_path)
    assert (code, stderr) == (0, "")
    config, deployment, pod = objects
    assert config["data"] == {"region": "north", "zone": "y"}
    assert deployment["spec"]["replicas"] == 3
    assert pod["metadata"]["name"] == "p"
    assert {obj["metadata"]["namespace"] for obj in objects} == {"to"}


def test_string_data_of_a_secret_overrides_data(tmp_path: Path) -> None:
    _, (config, *_), _ = run(tmp_path, secret=SECRET + "data: {REGION: bm9ydGg=}\nstringData: {REGION: south, ZONE: 7}")
    assert config["data"] == {"region": "south", "zone": "7"}


def test_provider_is_found_among_other_objects_and_gets_namespace_default(tmp_path: Path) -> None:
    both = f"{SECRET}---{PROVIDER.replace(', namespace: to', '')}"
    code, objects, _ = run(tmp_path, provider=both)
    assert code == 0
    assert {obj["metadata"]["namespace"] for obj in objects} == {"default"}


def test_without_version_the_metadata_is_not_checked(tmp_path: Path) -> None:
    code, _, stderr = run(tmp_path, provider=PROVIDER.replace("version: v1.2.3", ""))
    assert code == 0
    assert "note: spec.version is not set" in stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"secret": None},
            "note: rendered without Secret to/settings; give its file with --secret .* variables [REGION] is not set",
        ),
        ({"secret": SECRET.replace("settings", "x")}, "the file does not have Secret to/settings"),
        ({"secret": SECRET.replace("}", ", namespace: elsewhere}")}, "the file does not have Secret to/settings"),
        ({"secret": SECRET + "data: {"}, "secret: not YAML"),
        ({"additional": SECRET}, "the file does not have ConfigMap to/more"),
        ({"additional": MORE % "x"}, "document 4 is a str, not an object"),
        ({"provider": SECRET}, "the file has no provider of operator.cluster.x-k8s.io; kinds are CoreProvider"),
        ({"provider": PROVIDER.replace("operator.", "")}, "the file has no provider of operator.cluster.x-k8s.io"),
        ({"provider": PROVIDER.replace("v1.2.3", "v1.3.0")}, "version v1.3.0 does not match any release series"),
        ({"provider": PROVIDER.replace("v1.2.3", "v0.1.0")}, "of contract v1alpha3"),
        ({"provider": PROVIDER.replace("v1.2.3", "newest")}, "newest"),
        ({"metadata": "kind: x"}, "metadata.yaml is"),
        ({"components": "\xff"}, "components: not UTF-8 text"),
        ({"components": "${"}, "line 1 of the components"),
    ],
    ids=str,
)
def test_mismatched_files_are_rejected(tmp_path: Path, files: dict[str, str | None], message: str) -> None:
    code, objects, stderr = run(tmp_path, **files)
    assert (code, objects) == (1, [])
    for part in message.split(" .* "):
        assert part in stderr


@pytest.mark.parametrize(
    ("files", "note"),
    [
        (
            {"provider": PROVIDER.replace("configSecret", "configSecrt")},
            "spec.configSecrt is not a field of a provider",
        ),
        ({"provider": PROVIDER.replace("configSecret", "configSecrt")}, "did you mean configSecret?"),
        ({"provider": PROVIDER.replace("configSecret", "configSecrt")}, "--secret is not used"),
        ({"provider": PROVIDER.replace("replicas", "replica")}, "spec.deployment.replica is not a field"),
        ({"provider": PROVIDER + "  patches: [{taget: {}, patch: 'a: 1'}]"}, "spec.patches[0].taget is not a field"),
        (
            {"provider": PROVIDER + "  patches: [{target: {kind: Deploymnt}, patch: 'a: 1'}]"},
            "spec.patches[0] matches no object and changes nothing",
        ),
        (
            {"provider": PROVIDER + "  manifestPatches: ['{kind: Pd}']"},
            "spec.manifestPatches[0] matches no object",
        ),
        (
            {"provider": PROVIDER + "  additionalDeployments: {nope: {}}"},
            "spec.additionalDeployments.nope: no such Deployment; the components have manager",
        ),
        (
            {"additional": (MORE % "").replace("manifests", "manifest")},
            "ConfigMap to/more (spec.additionalManifests) has",
        ),
        ({"provider": f"{PROVIDER}---{PROVIDER.replace('name: x', 'name: z')}"}, "to/x is the first of 2 providers"),
    ],
    ids=str,
)
def test_settings_without_effect_are_noted(tmp_path: Path, files: dict[str, str | None], note: str) -> None:
    components = {"components": COMPONENTS.replace("${REGION}", "north")}
    code, objects, stderr = run(tmp_path, **components, **files)
    assert code == 0, stderr
    assert len(objects) >= 2
    assert f"note: {note}" in stderr or note in stderr


def test_settings_with_effect_are_not_noted(tmp_path: Path) -> None:
    """Free-form fields, and a patch for an object that an earlier patch has changed."""
    spec = """
  additionalDeployments: {manager: {manager: {featureGates: {A: true}}}}
  manager: {additionalArgs: {"--x": "y"}, controller: {groupKindConcurrency: {Cluster: 3}}}
  deployment: {nodeSelector: {a: b}, containers: [{name: c, resources: {limits: {cpu: 1}}}]}
  patches:
  - {target: {kind: Deployment, name: manager}, patch: "metadata: {name: other}"}
  - {target: {kind: Deployment, name: other}, patch: "metadata: {name: third}"}
"""
    text = COMPONENTS.replace("containers: []", "containers: [{name: c}]")
    code, _, stderr = run(tmp_path, components=text, provider=PROVIDER.replace("  deployment: {replicas: 3}\n", spec))
    assert (code, stderr) == (0, "")


def test_variables_of_environment_and_configuration_are_noted_as_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clusterctl").write_text("ZONE: z")
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "clusterctl"))
    monkeypatch.setenv("REGION", "north")
    code, _, stderr = run(tmp_path, secret=SECRET)
    assert code == 1
    assert "note: variable REGION in the environment is not used" in stderr
    assert "note: variable ZONE in $CLUSTERCTL_CONFIG is not used" in stderr
    assert run(tmp_path, secret=SECRET + "data: {REGION: bm9ydGg=, ZONE: eg==}").stderr == ""


def test_provider_from_standard_input_is_printed_as_json_list(tmp_path: Path) -> None:
    for name in ("components", "metadata"):
        (tmp_path / name).write_text(FILES[name].replace("${REGION}", "north"))
    arguments = [f"--{name}={tmp_path / name}" for name in ("components", "metadata")]
    result = CliRunner().invoke(app, ["provider", "render", "--provider=-", "-o", "json", *arguments], input=PROVIDER)
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert (made["kind"], [one["kind"] for one in made["items"]]) == ("List", ["ConfigMap", "Deployment"])


def test_empty_additional_manifests_are_noted(tmp_path: Path) -> None:
    code, objects, stderr = run(tmp_path, additional=None)
    assert (code, len(objects)) == (0, 2)
    assert "note: rendered without ConfigMap to/more; give its file with --additional" in stderr


TEXTS = [
    *("y", "N", "yes", "on", "~", "null", "=", "<<", "2026-01-01", "1:30"),
    *("1e3", "+.5E+3", "-.5", "1.", "0o17", "-0o7", "012", "0x1F", "1_000", "1_0e1", ".inf", "1e", "."),
]


@pytest.mark.parametrize("text", ["", " a\nb: c\n", "ä\u2028\t\x7f", "!x", "- a", "{", "#", *TEXTS])
def test_strings_stay_strings_in_manifests(text: str) -> None:
    objects: list[Object] = [{"kind": text, text: [text, {"a": text}]}, {}]
    assert list(bounded_yaml.load_all(manifests.dump(objects))) == objects


@pytest.mark.parametrize("value", [0, -7, 2**63, 1.5, 1e300, True, False, None, [], {}], ids=str)
def test_values_keep_their_types_in_manifests(value: object) -> None:
    assert list(bounded_yaml.load_all(manifests.dump([{"b": value, "a": [value]}]))) == [{"b": value, "a": [value]}]


def test_manifests_have_no_yaml_anchors() -> None:
    shared = {"a": "b"}
    assert manifests.dump([{"one": shared, "other": shared}]) == "one:\n  a: b\nother:\n  a: b\n"
