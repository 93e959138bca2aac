"""Renders a release's `cluster-addon-values.yaml` to Helm values for one cluster.

The file is a Go template over objects of the management cluster. The Helm engine renders it, as the only file of a
chart in memory, so that all functions of Helm's templates work. The template has no access to environment, files
or network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared import bounded_yaml

from . import integers, sandboxed
from .archive import pack
from .errors import ValuesError

_TEMPLATE: Final = "values/templates/_template"
OUTPUT: Final = "values/templates/output"
_EXACT: Final = 2**53
_CHAIN: Final = re.compile(r"(?<![\w.)])\$?((?:\.(?:Cluster|ControlPlane|InfraCluster))(?:\.\w+)+)")
"""The fields that a template names from the root on."""
_LOOKS_UP_HOSTS: Final = re.compile(r'(?<![\w.$"])getHostByName(?!\w)')


def render_values(template: str, context: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """Renders the template, and returns the values that its output contains.

    Integers are Go integers in the template. Missing keys and nulls print as nothing. If the output is a mapping with a
    text under `values`, that text is the values document.

    Args:
        template: The text of the template.
        context: The objects `Cluster`, `ControlPlane`, `InfraCluster`.
        name: The name of the file, for messages.

    Raises:
        ValuesError: The template fails, or its output is not a mapping; the message names file and line.
    """
    values: dict[str, Any] = sandboxed.call("values", template, with_exact_integers(dict(context)), name, name=name)
    return values


def render_texts(templates: Sequence[str], context: Mapping[str, Any], *, name: str) -> list[str]:
    """Returns the exact output of Go's template engine.

    Integers are Go integers, and missing keys print as `<no value>`. A template whose output differs each time fails.

    Args:
        templates: The texts of the templates; the output of the first one must be a YAML mapping, or empty.
        context: The objects `Cluster`, `ControlPlane`, `InfraCluster`.
        name: The name of the templates, for messages.

    Raises:
        ValuesError: A template fails.
        RenderError: A limit was exceeded.
    """
    texts: list[str] = sandboxed.call("texts", list(templates), with_exact_integers(dict(context)), name, name=name)
    return texts


def require_functions(template: str, name: str) -> None:
    """Raises `ValuesError` for a function of Helm that values templates do not have."""
    for action in template.split("{{")[1:]:
        if _LOOKS_UP_HOSTS.search(action.partition("}}")[0]):
            raise ValuesError(f'{name}: function "getHostByName" not defined')


def with_empty_maps(templates: Sequence[str], context: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the context with an empty map wherever a template looks into a map that is absent.

    In Go's template engine a field below a missing one is missing, too. In Helm it is an error. Only fields that the
    template names from the root on are found, as in `.Cluster.metadata.labels.zone`.
    """
    filled: dict[str, Any] = dict(context)
    for template in templates:
        for chain in _CHAIN.findall(template):
            below = filled
            for step in chain.split(".")[1:-1]:
                found = below.get(step, {})
                if not isinstance(found, Mapping):
                    break
                below[step] = dict(found)
                below = below[step]
    return filled


def as_chart(template: str, *, encoded: bool = False) -> bytes:
    """Returns a chart whose file `OUTPUT` is the output of the template, in base64 if `encoded`."""
    encoding = " | b64enc" if encoded else ""
    files = {
        "values/Chart.yaml": "apiVersion: v2\nname: values\nversion: 0.0.0\n",
        "values/templates/integers/integers": integers.template(start=0),
        _TEMPLATE: template,
        OUTPUT: f'{{{{ include "{_TEMPLATE}" .Values{encoding} }}}}',
    }
    return pack({path: text.encode() for path, text in files.items()})


def with_exact_integers(value: Any) -> Any:
    """Returns the value with large integers replaced by strings, which print the same.

    They are the integers that a float may not represent exactly, because a template would print another number.
    """
    if isinstance(value, Mapping):
        return {key: with_exact_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_exact_integers(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    return value


def parse_values(text: str, name: str) -> dict[str, Any]:
    """Parses the output of the template. Raises `ValuesError`."""
    values = as_mapping(text, name)
    if isinstance(inner := values.get("values"), str):
        return as_mapping(inner, f"{name}, under 'values'")
    return values


def as_mapping(text: str, name: str) -> dict[str, Any]:
    """Returns the mapping in a YAML text; empty for an empty text. Raises `ValuesError`."""
    try:
        document = bounded_yaml.load(text)
    except bounded_yaml.YAMLError as error:
        raise ValuesError(f"{name}: the rendered text is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValuesError(f"{name}: the rendered text is not a mapping")
    return document


def explain_error(message: str, name: str) -> str:
    """Returns Helm's message on one line, with the name of the values template.

    Paths in the chart in memory are replaced or left out, because users do not know them.
    """
    lines = [line.strip() for line in message.replace(_TEMPLATE, name).splitlines()]
    return f"{name}: " + " ".join([line for line in lines if OUTPUT not in line] or lines)
