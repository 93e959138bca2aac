"""Turns a release's `cluster-addon-values.yaml` into Helm values for one cluster.

The file is a Go template over whole objects of the management cluster, so it runs on the one engine that
has all of Go's and Helm's template language: as a chart in memory that consists of it. Helm has no access
to the environment, files or the network from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared import bounded_yaml

from . import integers, sandboxed
from .archive import pack
from .errors import ValuesError

_TEMPLATE: Final = "values/templates/_template"
OUTPUT: Final = "values/templates/output"
_EXACT: Final = 2**53


def render_values(template: str, context: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """The values that `template` gives over `context` (`.Cluster`, `.ControlPlane`, `.InfraCluster`).

    Integers are Go integers to the template, as they are in objects that Go programs read; missing keys and
    nulls print as nothing. If the result is a mapping with a text under `values`, then that text is the
    values document. Raises ValuesError, which names the file `name` and the template's line.
    """
    values: dict[str, Any] = sandboxed.call("values", template, exact(dict(context)), name, name=name)
    return values


def as_chart(template: str) -> bytes:
    """A chart whose file `OUTPUT` is what the template gives."""
    files = {
        "values/Chart.yaml": "apiVersion: v2\nname: values\nversion: 0.0.0\n",
        "values/templates/integers/integers": integers.template(start=0),
        _TEMPLATE: template,
        OUTPUT: f'{{{{ include "{_TEMPLATE}" .Values }}}}',
    }
    return pack({path: text.encode() for path, text in files.items()})


def exact(value: Any) -> Any:
    """The value with integers that a JSON float cannot hold as text, which prints the same."""
    if isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    return value


def read(text: str, name: str) -> dict[str, Any]:
    """The values of a rendered template. Raises ValuesError."""
    values = _mapping(text, name)
    if isinstance(inner := values.get("values"), str):
        return _mapping(inner, f"{name}, under 'values'")
    return values


def _mapping(text: str, name: str) -> dict[str, Any]:
    try:
        document = bounded_yaml.load(text)
    except bounded_yaml.YAMLError as error:
        raise ValuesError(f"{name}: the rendered text is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValuesError(f"{name}: the rendered text is a {type(document).__name__}, not a mapping")
    return document


def explained(message: str, name: str) -> str:
    """Helm's message in terms of the published file instead of the chart around it."""
    lines = [line.strip() for line in message.replace(_TEMPLATE, name).splitlines()]
    return f"{name}: " + " ".join([line for line in lines if OUTPUT not in line] or lines)
