"""Renders a chart with the official Helm engine, in whichever form the chart needs.

The engine inside this process is fast but believes in one fixed Kubernetes version and API list. Charts
that ask about the cluster go through the helm program, which can be told both. What comes out is the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .archive import inspect
from .errors import HelmMissing, RenderError
from .integers import guarded
from .program import find_helm

RELEASE_NAME: Final = "cluster-addon"
NAMESPACE: Final = "kube-system"
TIMEOUT: Final = 60.0
"""Seconds that one run of the helm program may take."""


class Manifest(NamedTuple):
    """YAML text of any number of objects, and the chart's file that it comes from."""

    source: str
    text: str


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
) -> list[Manifest]:
    """The chart's manifests: those of its `crds/` directories first, notes and empty files left out.

    `name` stands for the archive in messages. `kube_version` (`v1.36.3`) and `api_versions` (`apps/v1`,
    `apps/v1/Deployment`) count only for charts that ask for them; None means the engine's own version.
    `helm` gives the program for these, `find_helm` by default. Integers of the values print as integers.

    Raises ArchiveError, RenderError with Helm's own words, HelmMissing.
    """
    members = inspect(chart, name)
    if not members:
        raise RenderError(f"{name}: the archive is empty")
    prepared = guarded(chart, members)
    if not needs_cluster_facts(members) and not _has_remote_schema(members):
        return _in_process(prepared, values, name, release_name, namespace)
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
    if _has_remote_schema(members):
        arguments += ["--skip-schema-validation"]
    return _by_program(program, prepared, values, name, arguments)


_NOT_TEMPLATES: Final = re.compile(r"(^|/)crds/|(^|/)NOTES\.txt$|\.(md|tgz)$|(^|/)LICENSE[^/]*$")
_ASKS: Final = re.compile(rb"""\bCapabilities\b|\blookup\s+["'`$(.]""")
_CONSTRAINT: Final = re.compile(rb"""^["']?kubeVersion["']?\s*:""", re.MULTILINE)
_INSIDE: Final = re.compile("#")
_BUILT_IN: Final = {
    "$ref": _INSIDE,
    "$dynamicRef": _INSIDE,
    "$recursiveRef": _INSIDE,
    "$schema": re.compile("https?://json-schema.org/"),
}
"""What a schema may refer to without anything being fetched."""


def needs_cluster_facts(members: Mapping[str, bytes]) -> bool:
    """Whether a chart, or a subchart, may ask for the Kubernetes version, the API list or live objects.

    A mention counts, also in values and other files, since `tpl` can run those; a needless yes costs only
    time.
    """
    return any(
        _CONSTRAINT.search(content) if _is(path, "Chart.yaml") else _ASKS.search(content)
        for path, content in members.items()
        if not _NOT_TEMPLATES.search(path)
    )


def _has_remote_schema(members: Mapping[str, bytes]) -> bool:
    """Whether validating the values would fetch or open another schema; such a one is not used at all."""
    return any(_refers(content) for path, content in members.items() if _is(path, "values.schema.json"))


def _refers(schema: bytes) -> bool:
    pairs: list[tuple[str, Any]] = []
    try:
        json.loads(schema.decode(errors="replace"), object_pairs_hook=pairs.extend)  # sees every object inside
    except ValueError:
        return False  # Helm says what is wrong with it
    except RecursionError:
        return True
    return any(_BUILT_IN[key].match(str(value)) is None for key, value in pairs if key in _BUILT_IN)


def _is(path: str, file_name: str) -> bool:
    return path.rpartition("/")[2] == file_name


def _in_process(
    chart: bytes, values: Mapping[str, Any], name: str, release_name: str, namespace: str
) -> list[Manifest]:
    # Not before it is needed: what the library starts when it is loaded does not survive the fork of a server.
    from helm_python import Chart, HelmError

    try:
        # Loaded afresh each time: rendering removes disabled subcharts from a loaded chart for good. That is
        # also why the CRDs are read last.
        with Chart.load_archive(chart) as loaded:
            rendered = loaded.render(dict(values), name=release_name, namespace=namespace)
            crds = loaded.crds
    except HelmError as error:
        raise RenderError(f"{name}: {_one_line(str(error))}") from error
    manifests = [Manifest(crd["filename"], crd["data"]) for crd in crds]
    manifests += [Manifest(path, text) for path, text in sorted(rendered.items()) if not _is(path, "NOTES.txt")]
    return [manifest for manifest in manifests if manifest.text.strip()]


_SOURCE: Final = re.compile(r"^---\n# Source: (.+)\n", re.MULTILINE)


def _by_program(
    program: Path, chart: bytes, values: Mapping[str, Any], name: str, arguments: Sequence[str]
) -> list[Manifest]:
    with tempfile.TemporaryDirectory(prefix="helm-") as directory:
        archive = Path(directory, "chart.tgz")
        archive.write_bytes(chart)
        command = [str(program), "template", *arguments[:1], str(archive), *arguments[1:]]
        command += ["--include-crds", "--skip-tests", "--values", "-"]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(dict(values)),
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                cwd=directory,
                env={"HOME": directory, "HELM_CACHE_HOME": directory, "KUBECONFIG": os.devnull},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RenderError(f"{name}: helm took longer than {TIMEOUT:.0f} s") from error
        except OSError as error:
            raise HelmMissing(f"{name}: cannot run {program}: {error}") from error
    if done.returncode != 0:
        raise RenderError(f"{name}: {_one_line(done.stderr)}")
    _, *parts = _SOURCE.split("\n" + done.stdout)
    return [Manifest(source, text) for source, text in zip(parts[::2], parts[1::2], strict=True)]


def _one_line(message: str) -> str:
    return " ".join(message.removeprefix("Error: ").split())
