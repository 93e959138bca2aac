"""Renders charts with the Helm engine: as a library or, if the chart needs facts of the cluster, as the helm program.

The library is fast, but has one fixed Kubernetes version and API list, and no lookups. The helm program takes version
and API list as arguments, and looks up objects by a kubeconfig. Both give the same output.

`find_helm` finds the program: in $HELM, by the function that this process has set, or in the PATH, as in the image.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from shared.manifests import Manifest

from .. import sandbox
from ..sandbox import LimitExceeded, Limits
from . import sandboxed
from .errors import HelmMissing, NoScratchFiles, RenderError
from .integers import with_first_template, with_template
from .release import DEFAULT, NO_CLUSTER, NOTES, Capabilities, LiveCluster, Release

Provider = Callable[[], Path]

_provider: Provider | None = None


def provide_helm(provider: Provider | None) -> None:
    """Sets the function that provides the program without $HELM. It may download it, or raise `HelmMissing`."""
    global _provider
    _provider = provider


def find_helm() -> Path:
    """Returns the path of the helm program. Raises `HelmMissing`."""
    named = os.environ.get("HELM")
    if not named and _provider is not None:
        return _provider()
    found = shutil.which(named or "helm")
    if found is None:
        wrong = f"$HELM is {named}, which is not an executable file"
        where = wrong if named else "$HELM is not set, and the PATH has no helm"
        raise HelmMissing(f"{where}; install the helm program (v4), or use this project's image, which has it")
    return Path(found)


_NOTES_FILE: Final = "~notes.yaml"
_NOTES_TEMPLATE: Final = 'notes: {{ include (print .Template.BasePath "/NOTES.txt") . | toJson }}'
"""The helm program writes no notes, so a template of its own writes them."""
LIMITS: Final = Limits(cpu=20, wall=60.0, memory=384)
"""The limits of one run of the helm program: seconds of CPU, seconds, MiB."""
MAX_BYTES: Final = 32 * 2**20
"""The size of all files that the helm program writes."""


def render(
    chart: bytes,
    values: Mapping[str, Any],
    release: Release = DEFAULT,
    *,
    name: str,
    capabilities: Capabilities = NO_CLUSTER,
    notes: bool = False,
    exact_integers: bool = True,
) -> list[Manifest]:
    """Returns the manifests of a chart, `crds/` folders first, without empty files.

    Args:
        chart: The chart archive.
        values: The values.
        release: The Helm release.
        name: The name of the archive, for messages.
        capabilities: The cluster as the chart sees it.
        exact_integers: Whether integers print as integers; Helm prints 10485760 as 1.048576e+07.
        notes: Whether the notes of the chart, without the notes of subcharts, are a manifest with the source `NOTES`.

    Raises:
        ArchiveError: The archive is malformed or too large.
        RenderError: Helm rejects the chart or the values; the message is Helm's.
        HelmMissing: The chart needs the helm program, and there is none.
        NoScratchFiles: The disk is full.
        ApiError: The live cluster does not answer.
    """
    traits = sandboxed.traits(chart, name)
    if traits.depth < 0:
        raise RenderError(f"{name}: the archive is empty")
    prepared = with_first_template(chart, traits.depth, release.template, exact=exact_integers)
    if not traits.needs_cluster_facts and not traits.remote_schema:
        texts = sandboxed.call(
            "render", prepared, dict(values), name, release.name, release.namespace, notes, name=name
        )
        return [Manifest(*text) for text in texts]
    try:
        program = find_helm()
    except HelmMissing as error:
        raise HelmMissing(
            f"{name}: the chart needs facts of the cluster, or refers to an external schema: {error}"
        ) from error
    if release.name.startswith("-"):
        raise RenderError(f"{name}: {release.problem}")
    if notes and traits.has_notes:
        prepared = with_template(prepared, _NOTES_FILE, _NOTES_TEMPLATE)
    arguments = [release.name, "--namespace", release.namespace]
    if capabilities.version:
        arguments += ["--kube-version", capabilities.version]
    for version in capabilities.api_versions:
        arguments += ["--api-versions", version]
    if traits.remote_schema:
        arguments += ["--skip-schema-validation"]
    try:
        return _by_program(program, prepared, values, name, arguments, capabilities.live if traits.looks_up else None)
    except OSError as error:
        raise NoScratchFiles(
            f"{name}: cannot write the files of the helm program: {error}; free space in the folder of temporary files"
        ) from error


def _by_program(
    program: Path,
    chart: bytes,
    values: Mapping[str, Any],
    name: str,
    arguments: Sequence[str],
    live: LiveCluster | None,
) -> list[Manifest]:
    """Renders the chart with the helm program; `live` answers its lookups."""
    with ExitStack() as stack:
        directory = stack.enter_context(sandbox.scratch_folder())
        archive, output = directory / "chart.tgz", directory / "output"
        archive.write_bytes(chart)
        command = [str(program), "template", *arguments[:1], str(archive), *arguments[1:]]
        command += ["--include-crds", "--skip-tests", "--values", "-", "--output-dir", str(output)]
        kubeconfig = os.devnull
        server = None
        if live is not None:
            # With an output directory helm writes the files without comparing them with the cluster, so kinds that it
            # does not serve yet do no harm.
            from .lookup import LookupServer  # imports an HTTP server, which few processes need

            server = stack.enter_context(LookupServer(live))
            kubeconfig = str(server.write_kubeconfig(directory))
            command += ["--dry-run=server", "--disable-openapi-validation"]
        environment = {"HOME": str(directory), "HELM_CACHE_HOME": str(directory), "KUBECONFIG": kubeconfig}
        try:
            done = sandbox.run(
                command,
                input=json.dumps(dict(values)),
                cwd=directory,
                env=environment,
                limits=LIMITS,
                port=server.port if server is not None else None,
            )
        except LimitExceeded as error:
            raise RenderError(f"{name}: helm {error}, and was ended") from error
        except OSError as error:
            raise HelmMissing(f"{name}: cannot run {program}: {error}") from error
        if server is not None and server.failure is not None:
            raise server.failure
        if done.returncode != 0:
            raise RenderError(f"{name}: {_one_line(done.stderr)}")
        return sorted(_written(output, name), key=lambda manifest: (not _in_crds(manifest.source), manifest.source))


def _written(output: Path, name: str) -> Iterator[Manifest]:
    """Yields the manifests in the files that helm has written.

    Links are left out, because this process could follow them to files that helm must not read.
    """
    left = MAX_BYTES
    for path in output.rglob("*") if output.is_dir() and not output.is_symlink() else ():
        if path.is_symlink() or not path.is_file():
            continue
        left -= path.stat().st_size
        if left < 0:
            raise RenderError(f"{name}: renders to more than {MAX_BYTES} bytes")
        source = path.relative_to(output).as_posix()
        text = path.read_text("utf-8", errors="replace").removeprefix(f"---\n# Source: {source}\n")
        if source.endswith(f"/templates/{_NOTES_FILE}"):
            yield Manifest(NOTES, _text_of_notes(text, name))
        elif text.strip():
            yield Manifest(source, text)


def _text_of_notes(text: str, name: str) -> str:
    """Returns the notes in the output of `_NOTES_TEMPLATE`. A chart may have a file of that name itself."""
    try:
        return str(json.loads(text.removeprefix("notes: ")))
    except (ValueError, RecursionError) as error:
        raise RenderError(f"{name}: templates/{_NOTES_FILE} is a reserved name: rename the template") from error


def _in_crds(source: str) -> bool:
    return "/crds/" in source


def _one_line(message: str) -> str:
    """Returns Helm's error in one line, without preceding warnings."""
    before, mark, error = message.rpartition("Error: ")
    return " ".join((error if mark and (not before or before.endswith("\n")) else message).split())
