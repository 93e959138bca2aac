"""Whether functions run that install providers, and what `init` and `adopt` report."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from infra.cli.terminal.provider_report import PrintedReport
from infra.operations.providers.deployed_functions import NEEDED, WAIT, annotate_for_no_pods, missing_functions
from infra.operations.providers.report import WrittenObject
from infra.operations.providers.requests import ProviderSettings
from shared import bounded_yaml
from shared.kube import Key, Object
from shared.providers.annotations import WEBHOOKS

KNATIVE = Path(__file__).parents[3] / "infra/manifests/base"
SINGLE = KNATIVE.with_name("single") / "single.yaml"


@functools.cache
def generated_deployments() -> tuple[Object, ...]:
    """Returns the Deployments of `infra/manifests/base`, read once: every run of pytest imports this module."""
    return tuple(
        document
        for file in sorted(KNATIVE.glob("function-*.yaml"))
        for document in bounded_yaml.load_all(file.read_text())
        if document and document["kind"] == "Deployment"
    )


def deployments(**replicas: int | None) -> list[Object]:
    """Returns the Deployments of `infra/manifests/base`; `replicas` changes the number for some, or leaves them out."""
    found = list(generated_deployments())
    for name, number in replicas.items():
        [one] = [each for each in found if each["metadata"]["name"] == name.replace("_", "-")]
        found.remove(one)
        if number is not None:
            found.append({**one, "spec": {**one["spec"], "replicas": number}})
    return found


def single(**replicas: int) -> list[Object]:
    """Returns Deployments of `infra/manifests/single` with these numbers of replicas."""
    documents = [document for document in bounded_yaml.load_all(SINGLE.read_text()) if document]
    found = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Deployment"}
    chosen = [(found[name.replace("_", "-")], number) for name, number in replicas.items()]
    return [{**each, "spec": {**each["spec"], "replicas": number}} for each, number in chosen]


@pytest.mark.parametrize(
    ("present", "words"),
    [
        (deployments(), []),
        (deployments(provider_fetch=3, cluster=0), []),
        (deployments(addon_apply=None), []),
        ([], ["the cluster has no Deployments of functions", "`kubectl apply -k infra/manifests/single`"]),
        (deployments(**dict.fromkeys(NEEDED)), ["the cluster has no Deployments of functions"]),
        (deployments(provider_report=None), ["the cluster has no Deployment of provider-report;"]),
        (
            deployments(provider_fetch=0, provider_install=0),
            [
                "functions are scaled to 0",
                "`kubectl -n capi-functions scale deployment provider-fetch provider-install --replicas 1`",
            ],
        ),
        ([*deployments(provider_fetch=0), *deployments()], []),
        (single(capi_functions=2, capi_functions_providers=1), []),
        (single(capi_functions=0, capi_functions_providers=1), []),
        (single(capi_functions_providers=1), []),
        (
            single(capi_functions=2, capi_functions_providers=0),
            ["`kubectl -n capi-functions scale deployment capi-functions-providers --replicas 1`"],
        ),
        (
            single(capi_functions=2),
            ["no Deployment capi-functions-providers; `kubectl apply -k infra/manifests/single`"],
        ),
    ],
)
def test_missing_and_stopped_functions_are_named(present: list[Object], words: list[str]) -> None:
    message = missing_functions(present)
    assert bool(message) is bool(words)
    for part in words:
        assert part in message


def test_providers_in_a_local_run_get_annotations_for_no_pods() -> None:
    assert annotate_for_no_pods(ProviderSettings(), local=False) == (ProviderSettings(), [])
    given, [note] = annotate_for_no_pods(ProviderSettings(annotations={"a": "b"}), local=True)
    assert given.annotations == {"a": "b", WAIT: "false", WEBHOOKS: "none"}
    assert f'{WAIT}: "false" and {WEBHOOKS}: "none", and are installed without webhooks' in note
    asked = ProviderSettings(annotations={WAIT: "true", WEBHOOKS: "install"})
    assert annotate_for_no_pods(asked, local=True) == (asked, [])
    given, [note] = annotate_for_no_pods(ProviderSettings(annotations={WEBHOOKS: "install"}), local=True)
    assert given.annotations == {WEBHOOKS: "install", WAIT: "false"}
    assert "without" not in note


# -- the report ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [True, False])
def test_report_is_json_document_or_lines(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    report = PrintedReport(as_json=as_json)
    report.add_notes(["unknown"])
    report.add_written(WrittenObject("Namespace", Key("", "a"), "created"), "Namespace a created")
    report.add_written(WrittenObject("CoreProvider", Key("a", "cluster-api"), "unchanged", "v1.2.3"), "left alone")
    with pytest.raises(ValueError, match="broken"), report.document_at_end():
        raise ValueError("broken")
    captured = capsys.readouterr()
    assert "note: unknown" in captured.err
    lines = captured.err if as_json else captured.out
    assert "Namespace a created" in lines
    if as_json:
        assert json.loads(captured.out) == {
            "written": [
                {"kind": "Namespace", "namespace": "", "name": "a", "version": "", "action": "created"},
                {
                    "kind": "CoreProvider",
                    "namespace": "a",
                    "name": "cluster-api",
                    "version": "v1.2.3",
                    "action": "unchanged",
                },
            ],
            "notes": ["unknown"],
            "ready": False,
            "obstacle": "broken",
        }


def test_manifests_are_json_list_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    PrintedReport(as_json=True).print_manifests([{"kind": "Namespace"}])
    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Namespace"}]}
