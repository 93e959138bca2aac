"""The page of the custom resources: each kind with its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.generate.crds import schema
from shared.api.models import CUSTOM_RESOURCES, CustomResource

from .markdown import HEAD, plain, table

_HEAD = f"""{HEAD}# Custom resources

The kinds that the functions reconcile, as their CRDs define them. `kubectl explain KIND.FIELD` shows the same on a
cluster. In a field's name, `[]` is an item of a list, and `*` any key of a map.
"""
_FIELDS = ("field", "type", "default", "meaning")


def page() -> str:
    """Returns the text of the page. Kinds with the same fields share a section."""
    sections: dict[str, list[CustomResource]] = {}
    for custom in CUSTOM_RESOURCES:
        sections.setdefault(table(_FIELDS, _fields(schema(custom.root))), []).append(custom)
    return _HEAD + "".join(_section(customs, fields) for fields, customs in sections.items())


def _section(customs: list[CustomResource], fields: str) -> str:
    title = ", ".join(custom.resource.kind for custom in customs)
    summary = "\n\n".join(dict.fromkeys(_summary(custom) for custom in customs))
    return f"\n## {title}\n\n{summary}\n\n{fields}"


def _summary(custom: CustomResource) -> str:
    resource = custom.resource
    versions = " and ".join(f"`{resource.group}/{version}`" for version in (resource.version, *custom.also))
    scope = "namespaced" if resource.namespaced else "of the whole cluster"
    short = f", short name `{custom.short_name}`" if custom.short_name else ""
    brought = " Cluster API brings this kind, too." if custom.of_core else ""
    description = plain(str(schema(custom.root).get("description", "")))
    return f"{description}\n\n{versions}, {scope}{short}.{brought}"


def _fields(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yields the rows of all fields below a node of a schema, except the metadata."""
    for name, child in node.get("properties", {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        required = "*Required.* " if name in node.get("required", ()) else ""
        default = f"`{_text(child['default'])}`" if "default" in child else ""
        rules = "; ".join(rule["message"] for rule in child.get("x-kubernetes-validations", ()) if "message" in rule)
        meaning = " ".join(filter(None, (str(child.get("description", "")), rules and f"Rules: {rules}.")))
        yield f"`{path}{name}`", _type(child), default, required + meaning
        yield from _fields(child, f"{path}{name}.")
        if "items" in child:
            yield from _fields(child["items"], f"{path}{name}[].")
        if isinstance(child.get("additionalProperties"), dict):
            yield from _fields(child["additionalProperties"], f"{path}{name}.*.")


def _type(node: Mapping[str, Any]) -> str:
    if "items" in node:
        return f"list of {_type(node['items'])}"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map of {_type(node['additionalProperties'])}"
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in node:
        return ", ".join(f"`{_text(value)}`" for value in node["enum"])
    kind = "time" if node.get("format") == "date-time" else str(node.get("type", "any"))
    return kind + _range(node, "minimum", "maximum") + _range(node, "minLength", "maxLength", " characters")


def _range(node: Mapping[str, Any], lowest: str, highest: str, unit: str = "") -> str:
    if lowest not in node and highest not in node:
        return ""
    if highest not in node:
        return f", at least {node[lowest]}{unit}"
    return f", {node[lowest]} to {node[highest]}{unit}" if lowest in node else f", at most {node[highest]}{unit}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'
