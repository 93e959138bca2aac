"""`provider render`: what a provider consists of, from files alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from shared.kube import Key, Object

from ..failures import Failure, failures
from ..output import err


def render(
    provider: Annotated[Path, typer.Option(help="File with the provider object.", exists=True, dir_okay=False)],
    components: Annotated[Path, typer.Option(help="Components file of the release.", exists=True, dir_okay=False)],
    metadata: Annotated[Path, typer.Option(help="metadata.yaml of the release.", exists=True, dir_okay=False)],
    secret: Annotated[
        Path | None, typer.Option(help="File with the Secret of spec.configSecret.", exists=True, dir_okay=False)
    ] = None,
    additional: Annotated[
        Path | None,
        typer.Option(help="File with the ConfigMap of spec.additionalManifests.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Print what a provider consists of, as multi-document YAML. Needs no cluster."""
    from shared.api.provider import additional_manifests, config_secret
    from shared.components.render import render as rendered
    from shared.kube import dig
    from shared.providers.inputs import decoded

    from .. import manifests

    with failures(OSError, ValueError):
        asked = _provider(provider)
        _check_version(asked, metadata)
        variables = _referenced(config_secret(asked), "Secret", secret, "--secret")
        plain = {name: str(value) for name, value in dig(variables, "stringData", {}).items()}
        more = _referenced(additional_manifests(asked), "ConfigMap", additional, "--additional")
        result = rendered(
            manifests.text(components),
            provider=asked,
            values={**decoded(variables), **plain},
            additional=str(dig(more, "data.manifests", "")),
        )
        sys.stdout.write(manifests.dump(result.objects))


def _provider(path: Path) -> Object:
    """In the namespace `default` unless it says so, as kubectl would have it."""
    from shared.api.provider import BY_KIND, GROUP
    from shared.kube import dig
    from shared.kube.resources import split_api_version

    from .. import manifests

    for found in manifests.load(path):
        group, _ = split_api_version(str(found.get("apiVersion")))
        if group == GROUP and found.get("kind") in BY_KIND and isinstance(dig(found, "metadata.name"), str):
            return {**found, "metadata": {"namespace": "default", **found["metadata"]}}
    raise Failure(f"{path}: no provider of {GROUP} in it: {', '.join(BY_KIND)}")


def _check_version(provider: Object, path: Path) -> None:
    from shared.api.provider import version_of
    from shared.components import contracts, metadata

    known = metadata.parse(path.read_bytes(), str(path))
    if not (version := version_of(provider)):
        err.print("[yellow]note:[/yellow] spec.version is not set: any version will do")
    elif problem := contracts.of_version(known, version)[1]:
        raise Failure(f"{path}: {problem}")


def _referenced(key: Key | None, kind: str, path: Path | None, option: str) -> Mapping[str, object]:
    """What a provider refers to; empty where it does not, or where no file is given."""
    from shared.kube import key_of

    from .. import manifests

    if key is None:
        return {}
    if path is None:
        err.print(f"[yellow]note:[/yellow] without {kind} {escape(str(key))}; {option} names the file that has it")
        return {}
    for found in manifests.load(path):
        name = key_of(found)
        if found.get("kind") == kind and name.name == key.name and name.namespace in ("", key.namespace):
            return found
    raise Failure(f"{path}: {kind} {key} is not in it")
