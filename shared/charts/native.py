"""Runs the Helm engine as a library, in a worker process, because a chart may loop or grow without end.

Only the worker processes of `shared.sandbox` import this module: no process that serves functions loads the library.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from helm_python import Chart, HelmError

from shared import manifests
from shared.manifests import Manifest, ManifestError
from shared.sandbox.mapped_files import unmap_unchanged

from . import varying
from .archive import inspect
from .errors import OutputError, RenderError, ValuesError
from .release import NOTES
from .traits import is_notes, traits_of
from .values import OUTPUT, as_chart, as_mapping, explain_error, parse_values, require_functions, with_empty_maps

unmap_unchanged()  # loading the library reads 40 MiB of its file, rendering ten


def traits(chart: bytes, name: str) -> tuple[Any, ...]:
    """Returns the fields of `Traits` for a chart archive. Raises `ArchiveError`."""
    return traits_of(inspect(chart, name))


def with_fixed_time(chart: bytes, name: str) -> str:
    """Returns the chart archive with a fixed time in place of `now`, in base64. Raises `ArchiveError`."""
    return base64.b64encode(varying.with_fixed_time(chart, name)).decode()


def render(
    chart: bytes, values: Mapping[str, Any], name: str, release_name: str, namespace: str, notes: bool
) -> list[tuple[str, str]]:
    """Returns source and text of the chart's CRDs and rendered files, without notes and empty files.

    Raises `RenderError`.
    """
    try:
        # Loads the chart each time, because rendering removes disabled subcharts from a loaded chart for good. For the
        # same reason it reads the CRDs last.
        with Chart.load_archive(chart) as loaded:
            rendered = loaded.render(dict(values), name=release_name, namespace=namespace)
            crds = loaded.crds
    except HelmError as error:
        raise RenderError(f"{name}: {' '.join(str(error).removeprefix('Error: ').split())}") from error
    except UnicodeDecodeError as error:
        raise RenderError(f"{name}: Helm's error message is not UTF-8") from error
    texts = [(crd["filename"], crd["data"]) for crd in crds]
    texts += [(path, text) for path, text in sorted(rendered.items()) if path.rpartition("/")[2] != "NOTES.txt"]
    texts += [(NOTES, text) for path, text in rendered.items() if notes and is_notes(path)]
    # Helm prints a line break behind each manifest, which belongs to a block scalar at its end.
    return [(path, text if path == NOTES else text + "\n") for path, text in texts if text.strip()]


def values(template: str, context: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Renders a values template with `context`, and returns the resulting values. Raises `ValuesError`."""
    return parse_values(_rendered(as_chart(template), context, name), name)


def texts(templates: list[str], context: Mapping[str, Any], name: str) -> list[str]:
    """Returns the exact output of templates; the first one must yield a YAML mapping. Raises `ValuesError`."""
    filled = with_empty_maps(templates, context)
    found = [_exact(template, filled, name) for template in templates]
    for text in found[:1]:
        as_mapping(text, name)
    return found


def _exact(template: str, context: Mapping[str, Any], name: str) -> str:
    if "{{" not in template:
        return template
    require_functions(template, name)
    text = _decoded(template, context, name)
    if varying.text_may_vary(template.encode()):
        again = varying.text_with_fixed_time(template.encode()).decode()
        if _decoded(again, context, name) != text:
            raise ValuesError(
                f"{name}: the output of the template differs each time, so upgrades would never end: use neither "
                "random values nor the time, and sort keys"
            )
    return text


def _decoded(template: str, context: Mapping[str, Any], name: str) -> str:
    """Returns the output of a template without Helm's own changes to it: Helm removes `<no value>`."""
    output = _rendered(as_chart(template, encoded=True), context, name)
    return base64.b64decode(output).decode(errors="replace")


def _rendered(chart: bytes, context: Mapping[str, Any], name: str) -> str:
    try:
        with Chart.load_archive(chart) as loaded:
            return str(loaded.render(dict(context))[OUTPUT])
    except HelmError as error:
        raise ValuesError(explain_error(str(error), name)) from error
    except UnicodeDecodeError as error:
        raise ValuesError(f"{name}: Helm's error message is not UTF-8") from error


def parse(texts: list[tuple[str, str]], default_namespace: str, hooks: list[str]) -> list[dict[str, Any]]:
    """Parses rendered texts as `manifests.parse` does, but in the worker. A chart's output may take long to parse.

    Raises `OutputError`.
    """
    try:
        given = [Manifest(*text) for text in texts]
        return manifests.parse(given, default_namespace=default_namespace, hooks=frozenset(hooks))
    except ManifestError as error:
        raise OutputError(str(error)) from error
