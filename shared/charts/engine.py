"""Renders a chart with the official Helm engine, in whichever form the chart needs.

The engine as a library is fast but believes in one fixed Kubernetes version and API list, and sees no cluster. Charts
that ask about the cluster go through the helm program, which can be told both, and which looks up objects in the
cluster that it is given. What comes out is the same.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from shared.manifests import Manifest

from .. import sandbox
from ..sandbox import LimitExceeded, Limits
from . import sandboxed
from .errors import HelmMissing, RenderError
from .integers import guarded
from .live import LiveCluster
from .program import find_helm

RELEASE_NAME: Final = "cluster-addon"
NAMESPACE: Final = "kube-system"
LIMITS: Final = Limits(cpu=20, wall=60.0, memory=384)
"""Of one run of the helm program."""
MOST_BYTES: Final = 32 * 2**20
"""Of everything that the helm program renders."""


def render(
    chart: bytes,
    values: Mapping[str, Any],
    *,
    name: str,
    release_name: str = RELEASE_NAME,
    namespace: str = NAMESPACE,
    kube_version: str | None = None,
    api_versions: Sequence[str] = (),
    helm: Callable[[], Path] | None = None,
    live: LiveCluster | None = None,
) -> list[Manifest]:
    """The chart's manifests: those of its `crds/` directories first, notes and empty files left out.

    `name` stands for the archive in messages. `kube_version` (`v1.36.3`) and `api_versions` (`apps/v1`,
    `apps/v1/Deployment`) count only for charts that ask for them; None means the engine's own version.
    `helm` gives the program for these, `find_helm` by default. Integers of the values print as integers.
    `live` answers `lookup`, with its own version and API list; without it lookups find nothing.

    Raises ArchiveError, RenderError with Helm's own words, HelmMissing, and `ApiError` where the live cluster does not
    answer.
    """
    traits = sandboxed.traits(chart, name)
    if traits.depth < 0:
        raise RenderError(f"{name}: the archive is empty")
    prepared = guarded(chart, traits.depth)
    if not traits.asks and not traits.remote_schema:
        texts = sandboxed.call("render", prepared, dict(values), name, release_name, namespace, name=name)
        return [Manifest(*text) for text in texts]
    try:
        program = (helm or find_helm)()
    except HelmMissing as error:
        raise HelmMissing(
            f"{name}: the chart asks for facts of the cluster, or has a schema elsewhere: {error}"
        ) from error
    arguments = [release_name, "--namespace", namespace]
    if kube_version:
        arguments += ["--kube-version", kube_version]
    for version in api_versions:
        arguments += ["--api-versions", version]
    if traits.remote_schema:
        arguments += ["--skip-schema-validation"]
    return _by_program(program, prepared, values, name, arguments, live if traits.looks_up else None)


def _by_program(
    program: Path,
    chart: bytes,
    values: Mapping[str, Any],
    name: str,
    arguments: Sequence[str],
    live: LiveCluster | None,
) -> list[Manifest]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="helm-")))
        archive, output = directory / "chart.tgz", directory / "output"
        archive.write_bytes(chart)
        command = [str(program), "template", *arguments[:1], str(archive), *arguments[1:]]
        command += ["--include-crds", "--skip-tests", "--values", "-", "--output-dir", str(output)]
        kubeconfig = os.devnull
        server = None
        if live is not None:
            # With an output directory the program has rendered everything before it would compare anything with the
            # cluster, and nothing is left to compare: objects of kinds that are not there yet do no harm.
            from .lookup import LookupServer  # with an HTTP server, which few processes need

            server = stack.enter_context(LookupServer(live))
            kubeconfig = str(server.write_kubeconfig(directory))
            command += ["--dry-run=server", "--disable-openapi-validation"]
        environment = {"HOME": str(directory), "HELM_CACHE_HOME": str(directory), "KUBECONFIG": kubeconfig}
        try:
            done = sandbox.run(command, input=json.dumps(dict(values)), cwd=directory, env=environment, limits=LIMITS)
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
    left = MOST_BYTES
    for path in output.rglob("*") if output.is_dir() else ():
        if path.is_symlink() or not path.is_file():
            continue
        left -= path.stat().st_size
        if left < 0:
            raise RenderError(f"{name}: renders to more than {MOST_BYTES} bytes")
        source = path.relative_to(output).as_posix()
        text = path.read_text("utf-8", errors="replace").removeprefix(f"---\n# Source: {source}\n")
        if text.strip():
            yield Manifest(source, text)


def _in_crds(source: str) -> bool:
    return "/crds/" in source


def _one_line(message: str) -> str:
    """Helm's error, without the warnings before it."""
    before, mark, error = message.rpartition("Error: ")
    return " ".join((error if mark and (not before or before.endswith("\n")) else message).split())
