"""`provider init`: parses requests and prints manifests without a cluster; `provider catalog` and `list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.commands.provider.group import format_table
from infra.cli.main import app
from infra.operations.failure import Failure
from infra.operations.providers.requests import (
    ProviderRequest,
    complete,
    default_namespace,
    parse_kind,
    parse_request,
    parse_secret,
)
from infra.operations.providers.status import ProviderSummary, status_of
from shared import bounded_yaml
from shared.api.conditions import READY
from shared.api.provider import (
    ADDON,
    BOOTSTRAP,
    CONTROL_PLANE,
    CORE,
    INFRASTRUCTURE,
    IPAM,
    KINDS,
    RUNTIME_EXTENSION,
    ProviderKind,
)
from shared.applier.policy import PREFIX
from shared.kube import Key, Object
from tests.support.provider_objects import provider


@pytest.mark.parametrize(
    ("kind", "text", "namespace", "version"),
    [
        (CORE, "cluster-api", "capi-system", ""),
        (CORE, "cluster-api:capi:v1.14.0", "capi", "v1.14.0"),
        (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system", ""),
        (CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system", ""),
        (BOOTSTRAP, "rke2", "rke2-bootstrap-system", ""),
        (INFRASTRUCTURE, "docker", "docker-infrastructure-system", ""),
        (INFRASTRUCTURE, "docker:capd-system", "capd-system", ""),
        (INFRASTRUCTURE, "docker:v1.14.0", "docker-infrastructure-system", "v1.14.0"),
        (INFRASTRUCTURE, "docker:1.14.0-rc.1", "docker-infrastructure-system", "v1.14.0-rc.1"),
        (INFRASTRUCTURE, "docker::v1.14.0", "docker-infrastructure-system", "v1.14.0"),
        (INFRASTRUCTURE, "docker:v1:v1.14.0", "v1", "v1.14.0"),
        (INFRASTRUCTURE, "vsphere:vsphere-system", "vsphere-system", ""),
        (IPAM, "in-cluster", "in-cluster-ipam-system", ""),
        (RUNTIME_EXTENSION, "nutanix", "nutanix-runtime-extension-system", ""),
        (ADDON, "helm:caaph-system:v0.4.0-alpha.1", "caaph-system", "v0.4.0-alpha.1"),
    ],
)
def test_request_has_name_namespace_and_version(kind: ProviderKind, text: str, namespace: str, version: str) -> None:
    assert parse_request(kind, text) == ProviderRequest(kind, text.split(":")[0], namespace, version)


@pytest.mark.parametrize(
    "text",
    [
        "docker:vfoo",
        "docker:v1",
        "docker:1",
        "docker:v1-14",
        "",
        ":",
        "a:",
        ":a",
        "a:b:",
        "a:b:c:d",
        "a:b:c",
        "A",
        "a_b",
        "a:B",
        "a b",
        "-a",
        "a\n",
    ],
)
def test_malformed_request_is_rejected(text: str) -> None:
    with pytest.raises(Failure, match="--infrastructure "):
        parse_request(INFRASTRUCTURE, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("docker:v1.14", "'v1.14' is not a version such as v1.2.3"),
        ("docker:1.14", "'1.14' is not a version such as v1.2.3"),
        ("docker:x:v1.14", "'v1.14' is not a version such as v1.2.3"),
        ("docker:v1.14.0:capd-system", "the namespace comes before the version, as in docker:capd-system:v1.14.0"),
        ("docker:Capd", "names have lower-case letters"),
    ],
)
def test_rejection_names_the_mistake(text: str, words: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_request(INFRASTRUCTURE, text)
    assert words in str(caught.value)


def test_core_provider_of_another_name_is_rejected() -> None:
    with pytest.raises(Failure, match="must be named cluster-api"):
        parse_request(CORE, "capi")


@pytest.mark.parametrize(
    ("text", "key"), [("", None), ("variables", Key("", "variables")), ("variables:vault", Key("vault", "variables"))]
)
def test_secret_has_name_and_namespace(text: str, key: Key | None) -> None:
    assert parse_secret(text) == key


@pytest.mark.parametrize("text", [":", "a:", ":a", "a:b:c", "A"])
def test_malformed_secret_is_rejected(text: str) -> None:
    with pytest.raises(Failure, match="must be name"):
        parse_secret(text)


def wanted(*places: tuple[ProviderKind, str]) -> list[ProviderRequest]:
    return [ProviderRequest(kind, name, default_namespace(kind, name)) for kind, name in places]


KUBEADM = [(BOOTSTRAP, "kubeadm"), (CONTROL_PLANE, "kubeadm")]


@pytest.mark.parametrize(
    ("requested", "implied"),
    [
        ([], []),
        ([(CORE, "cluster-api")], []),
        ([(INFRASTRUCTURE, "docker")], [(CORE, "cluster-api"), *KUBEADM]),
        ([(INFRASTRUCTURE, "aws"), (INFRASTRUCTURE, "docker")], [(CORE, "cluster-api"), *KUBEADM]),
        ([(INFRASTRUCTURE, "docker"), (BOOTSTRAP, "rke2")], [(CORE, "cluster-api"), KUBEADM[1]]),
        ([(INFRASTRUCTURE, "docker"), (CONTROL_PLANE, "rke2")], [(CORE, "cluster-api"), KUBEADM[0]]),
        ([(BOOTSTRAP, "kubeadm")], [(CORE, "cluster-api")]),
        ([(IPAM, "in-cluster")], [(CORE, "cluster-api")]),
        ([(ADDON, "helm"), (CORE, "cluster-api")], []),
        ([(kind, "cluster-api" if kind.is_core else "x") for kind in KINDS], []),
    ],
)
def test_required_providers_are_added(
    requested: list[tuple[ProviderKind, str]], implied: list[tuple[ProviderKind, str]]
) -> None:
    found = complete(wanted(*requested))
    assert [(one.kind, one.name) for one in found if one.implied] == implied
    assert sorted((one.kind.type_name, one.name) for one in found if not one.implied) == sorted(
        (kind.type_name, name) for kind, name in requested
    )
    assert [KINDS.index(one.kind) for one in found] == sorted(KINDS.index(one.kind) for one in found)


def test_added_providers_have_the_version_of_the_core_provider() -> None:
    requested = [parse_request(CORE, "cluster-api:v1.13.4"), parse_request(INFRASTRUCTURE, "docker:v1.12.0")]
    assert [one.version for one in complete(requested)] == ["v1.13.4", "v1.13.4", "v1.13.4", "v1.12.0"]
    assert [one.version for one in complete(requested[1:])] == ["", "", "", "v1.12.0"]


def test_duplicate_request_is_rejected() -> None:
    with pytest.raises(Failure, match="InfrastructureProvider docker is requested twice"):
        complete([parse_request(INFRASTRUCTURE, "docker"), parse_request(INFRASTRUCTURE, "docker:elsewhere")])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type_name)
def test_kind_is_found_by_each_of_its_names(kind: ProviderKind) -> None:
    for text in (kind.kind, kind.kind.lower(), kind.resource.plural, kind.short_name, kind.type_name, kind.prefix):
        assert parse_kind(text) is kind
    with pytest.raises(Failure, match="is not a kind of provider"):
        parse_kind("node")


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "none"))


def run(*arguments: str) -> tuple[int, list[Object], str]:
    result = CliRunner().invoke(app, ["provider", "init", "--dry-run", *arguments])
    return result.exit_code, list(bounded_yaml.load_all(result.stdout)), " ".join(result.stderr.split())


def test_dry_run_prints_manifests_of_all_kinds() -> None:
    words = ("--core", "-b", "-c", "-i", "--ipam", "--runtime-extension", "--addon")
    names = ("cluster-api", "kubeadm", "kubeadm", "docker:capd:v1.14.0", "in-cluster", "nutanix", "helm")
    arguments = [text for pair in zip(words, names, strict=True) for text in pair]
    code, objects, stderr = run(*arguments, "-i", "aws", "--config-secret", "variables")
    assert (code, stderr) == (0, "")
    made = [(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in objects]
    assert made[:2] == [("Namespace", "", "capi-system"), ("Namespace", "", "capi-kubeadm-bootstrap-system")]
    assert made[8:] == [
        ("CoreProvider", "capi-system", "cluster-api"),
        ("BootstrapProvider", "capi-kubeadm-bootstrap-system", "kubeadm"),
        ("ControlPlaneProvider", "capi-kubeadm-control-plane-system", "kubeadm"),
        ("InfrastructureProvider", "capd", "docker"),
        ("InfrastructureProvider", "aws-infrastructure-system", "aws"),
        ("IPAMProvider", "in-cluster-ipam-system", "in-cluster"),
        ("RuntimeExtensionProvider", "nutanix-runtime-extension-system", "nutanix"),
        ("AddonProvider", "helm-addon-system", "helm"),
    ]
    docker = objects[11]
    assert docker["spec"] == {"version": "v1.14.0", "configSecret": {"name": "variables", "namespace": "capd"}}


def test_dry_run_with_secret_in_another_namespace_and_one_namespace_for_all() -> None:
    code, objects, _ = run("--core", "cluster-api:one", "-b", "rke2:one", "--config-secret", "variables:vault")
    assert code == 0
    assert [obj["kind"] for obj in objects] == ["Namespace", "CoreProvider", "BootstrapProvider"]
    assert objects[1]["spec"] == {"configSecret": {"name": "variables", "namespace": "vault"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no provider is given: name one"),
        (("-i", "aws:infra:v1.2.3:extra"), "'aws:infra:v1.2.3:extra': must be name, name:version, name:namespace or"),
        (("-b", ""), "--bootstrap '': must be"),
        (
            ("-i", "docker", "--config-secret", "mine:vault:extra"),
            "--config-secret 'mine:vault:extra': must be name[:namespace]",
        ),
        (("-i", "docker", "--target-namespace", "capd-system"), "as in `-i docker:capd-system:v1.14.0`"),
        (("-i", "dokcer"), "--infrastructure dokcer: did you mean docker? `provider catalog` lists all"),
        (("-i", "rke2"), "--infrastructure rke2: did you mean --bootstrap rke2 or --control-plane rke2?"),
        (("-i", "docker", "--annotate", "wait"), "--annotate 'wait': must be name=value"),
        (
            ("-i", "docker", "--annotate", f"{PREFIX}wait=no", "--annotate", f"{PREFIX}certificates=mine"),
            f"{PREFIX}wait is 'no'; it must be one of true, false; annotation {PREFIX}certificates is 'mine'",
        ),
        (("-i", "docker", "--annotate", f"{PREFIX}wait-timout=9"), f"did you mean {PREFIX}wait-timeout?"),
    ],
)
def test_invalid_options_are_rejected(arguments: tuple[str, ...], message: str) -> None:
    code, objects, stderr = run(*arguments)
    assert (code, objects) == (1, [])
    assert stderr.startswith("error: ")
    assert message in stderr


def test_provider_without_source_is_noted() -> None:
    code, objects, stderr = run("-i", "mine")
    assert (code, len(objects)) == (0, 8)
    assert "note: InfrastructureProvider mine is not in the catalog: set spec.fetchConfig" in stderr


def test_provider_of_the_configuration_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://x.test/a/b/releases/latest/c.yaml"
    (tmp_path / "own").write_text(f"providers: [{{name: dokcer, type: InfrastructureProvider, url: '{url}'}}]")
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "own"))
    code, _, stderr = run("-i", "dokcer")
    assert (code, stderr) == (0, "")


def test_annotations_are_added() -> None:
    code, objects, _ = run("--core", "cluster-api", "--annotate", f"{PREFIX}wait=false", "--annotate", "a.test/b=c=d")
    assert code == 0
    assert objects[1]["metadata"]["annotations"] == {f"{PREFIX}wait": "false", "a.test/b": "c=d"}


def test_help_shows_the_form_on_a_narrow_terminal() -> None:
    for command in ("init", "export"):
        result = CliRunner().invoke(app, ["provider", command, "--help"], env={"COLUMNS": "80"})
        assert "NAME, NAME:VERSION, NAME:NAMESPACE or NAME:NAMESPACE:VERSION" in " ".join(result.stdout.split())
        assert "…" not in result.stdout


def test_catalog_lists_kinds_names_and_urls() -> None:
    result = CliRunner().invoke(app, ["provider", "catalog", "core", "-o", "json"])
    [core] = json.loads(result.stdout)
    assert (core["kind"], core["name"]) == ("CoreProvider", "cluster-api")
    assert core["url"].endswith("/kubernetes-sigs/cluster-api/releases/latest/core-components.yaml")
    lines = CliRunner().invoke(app, ["provider", "catalog"]).stdout.splitlines()
    assert [line.split()[:2] for line in lines if " rke2 " in line] == [
        ["BootstrapProvider", "rke2"],
        ["ControlPlaneProvider", "rke2"],
    ]


# -- status --------------------------------------------------------------------------------------------------------


def condition(type_: str, status: str, reason: str = "Because", *, generation: int = 1) -> Object:
    fields = {"message": "of\x1b[31m that", "observedGeneration": generation}
    return {"type": type_, "status": status, "reason": reason, **fields}


@pytest.mark.parametrize(
    ("made", "ready", "reason"),
    [
        (provider(), "Unknown", "NotLookedAt"),
        (provider(conditions=[condition(READY, "True", "Ready")]), "True", "Ready"),
        (provider(conditions=[condition(READY, "False")]), "False", "Because"),
        (provider(conditions=[condition(READY, "True")], metadata={"generation": 2}), "Unknown", "Changed"),
        (provider(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}}), "Unknown", "Paused"),
        (provider(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "False", "Deleting"),
        (
            provider(
                conditions=[condition("Deleting", "True", "CustomResourcesExist")],
                metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
            ),
            "False",
            "CustomResourcesExist",
        ),
    ],
)
def test_status_has_versions_and_reason(made: Object, ready: str, reason: str) -> None:
    stands = status_of(made)
    assert (stands.ready, stands.reason) == (ready, reason)


def test_table_escapes_messages_and_has_no_empty_cells() -> None:
    ready = provider(installed="v1.2.3", version="v1.2.3", conditions=[condition(READY, "True", "Ready")])
    heading, first, second = format_table(
        [status_of(ready), status_of(provider(conditions=[condition(READY, "False")]))]
    )
    assert first.split() == ["CoreProvider", "cluster-api", "capi-system", "v1.2.3", "v1.2.3", "-", "True"]
    assert second.split()[3:] == ["-", "newest", "-", "False", "Because:", "of\\x1b[31m", "that"]
    assert second.index("Because") == heading.index("REASON")


@pytest.mark.parametrize(
    ("reason", "message", "failed"),
    [
        ("ComponentsFetchError", "github.com: name cannot be resolved", True),
        ("ComponentsFetchError", "github.com answers with HTTP 429", False),
        ("ComponentsFetchError", "github.com answers with HTTP 503", False),
        ("ComponentsFetchError", "github.com answers with HTTP 404", True),
        ("InvalidAnnotation", "no such value", True),
        ("WaitingForCore", "the core provider is not ready", False),
    ],
)
def test_wait_ends_with_a_failure_that_lasts(reason: str, message: str, failed: bool) -> None:
    summary = ProviderSummary("CoreProvider", "cluster-api", "capi-system", "", "", "", "False", reason, message)
    assert summary.has_failed is failed
