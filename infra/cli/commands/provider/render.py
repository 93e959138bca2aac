"""`provider render`: renders a provider's objects from files, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.options import FormatOptions
from infra.cli.terminal.failures import report_failures
from infra.cli.terminal.option_groups import App
from infra.cli.terminal.provider_report import PrintedReport
from infra.operations.failure import Failure
from shared.kube import Key, Object

app = App()

_STDIN = "-"


@app.command(examples=["provider render --provider docker.yaml --components components.yaml --metadata metadata.yaml"])
def render(
    *,
    provider: Annotated[Path, typer.Option(help="File with the provider object; - for standard input.")],
    components: Annotated[Path, typer.Option(help="Components file of the release.", exists=True, dir_okay=False)],
    metadata: Annotated[Path, typer.Option(help="metadata.yaml of the release.", exists=True, dir_okay=False)],
    secret: Annotated[
        Path | None, typer.Option(help="File with the Secret of spec.configSecret.", exists=True, dir_okay=False)
    ] = None,
    additional: Annotated[
        Path | None,
        typer.Option(help="File with the ConfigMap of spec.additionalManifests.", exists=True, dir_okay=False),
    ] = None,
    output: FormatOptions,
) -> None:
    """Print the objects of a provider, as multi-document YAML, or as a List in JSON. Needs no cluster.

    Variables come from the Secret only, as for the functions, not from the environment.
    """
    from infra.operations import manifests
    from infra.operations.providers.ineffective import (
        empty_additional_manifests,
        ineffective_settings,
        unread_variables,
    )
    from infra.operations.providers.schema import unknown_fields
    from shared.api.provider import additional_manifests, config_secret
    from shared.components.render import render as rendered
    from shared.kube import dig
    from shared.providers.inputs import decode_secret

    with report_failures(OSError, ValueError):
        report = PrintedReport(as_json=output.json)
        rendered_provider = _provider(provider, report)
        report.add_notes(unknown_fields(rendered_provider))
        _check_version(rendered_provider, metadata, report)
        variables = _referenced(config_secret(rendered_provider), "Secret", secret, "--secret", report)
        texts = {name: str(value) for name, value in dig(variables, "stringData", {}).items()}
        values = {**decode_secret(variables), **texts}
        more = _referenced(additional_manifests(rendered_provider), "ConfigMap", additional, "--additional", report)
        added, text = str(dig(more, "data.manifests", "")), manifests.text(components)
        report.add_notes(unread_variables(text, values))
        result = rendered(text, provider=rendered_provider, values=values, additional=added)
        report.add_notes(ineffective_settings(rendered_provider, text, values, added))
        report.add_notes(empty_additional_manifests(rendered_provider, added) if more else ())
        report.print_manifests(result.objects)


def _provider(path: Path, report: PrintedReport) -> Object:
    """Returns the first provider of the file; without a namespace it is in `default`, as for kubectl."""
    from shared.api.provider import BY_KIND, GROUP
    from shared.kube import dig, key_of
    from shared.kube.resources import split_api_version

    found = [
        {**document, "metadata": {"namespace": "default", **document["metadata"]}}
        for document in _documents(path)
        if split_api_version(str(document.get("apiVersion")))[0] == GROUP
        and document.get("kind") in BY_KIND
        and isinstance(dig(document, "metadata.name"), str)
    ]
    if not found:
        raise Failure(f"{path}: the file has no provider of {GROUP}; kinds are {', '.join(BY_KIND)}")
    if len(found) > 1:
        report.add_notes(
            [f"{path}: {found[0]['kind']} {key_of(found[0])} is the first of {len(found)} providers in it"]
        )
    return found[0]


def _documents(path: Path) -> list[Object]:
    from infra.operations import manifests
    from shared import bounded_yaml

    if str(path) != _STDIN:
        return manifests.load(path)
    try:
        return [document for document in bounded_yaml.load_all(sys.stdin.read()) if isinstance(document, dict)]
    except bounded_yaml.YAMLError as error:
        raise ValueError(f"standard input: not YAML: {' '.join(str(error).split())}") from error


def _check_version(provider: Object, path: Path, report: PrintedReport) -> None:
    from shared.api.provider import spec_version
    from shared.components import metadata, versions

    known = metadata.parse(path.read_bytes(), str(path))
    if not (version := spec_version(provider)):
        report.add_notes(["spec.version is not set: the version of the metadata is not checked"])
    elif problem := versions.contract_of(known, version)[1]:
        raise Failure(f"{path}: {problem}")


def _referenced(
    key: Key | None, kind: str, path: Path | None, option: str, report: PrintedReport
) -> Mapping[str, object]:
    """Returns the object that the provider references; empty if it references none, or if no file is given."""
    from infra.operations import manifests
    from shared.kube import key_of

    if key is None:
        if path is not None:
            report.add_notes([f"{option} is not used: the provider references no {kind}"])
        return {}
    if path is None:
        report.add_notes([f"rendered without {kind} {key}; give its file with {option}"])
        return {}
    for found in manifests.load(path):
        name = key_of(found)
        if found.get("kind") == kind and name.name == key.name and name.namespace in ("", key.namespace):
            return found
    raise Failure(f"{path}: the file does not have {kind} {key}")
