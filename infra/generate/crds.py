"""Converts pydantic's JSON schema to CustomResourceDefinitions.

The structural schemas of Kubernetes differ from JSON schema in four ways, for which `structural` has a line each. It
inlines references, replaces "X or null" by X, drops titles, and replaces a constant by an enum with one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from shared.api.models import Column, CustomResource, Model
from shared.kube.resources import Object

from .files import Document, kustomization, yaml_text

_KEPT = {"helm.sh/resource-policy": "keep"}
"""Keeps Helm from deleting a CRD, even if a later release lacks it, because all of its objects would be lost.

Not for the group that Cluster API installs, because the deletion of that provider decides about its CRDs.
"""

_DROPPED = {"title", "additionalProperties", "$defs"}
_CORE = "cluster"
_HEADERS = {
    "": f"Leaves out the CRDs that Cluster API installs. Without Cluster API apply {_CORE}, too.",
    _CORE: "CRDs for a cluster without Cluster API, which has its own: leave them out there.",
}
"""The purpose of the kustomization in each folder."""


def files(customs: Sequence[CustomResource]) -> dict[str, str]:
    """Returns the content of files by path: one for each CRD, and a kustomization for each folder."""
    documents: dict[str, Document] = {}
    for folder, header in _HEADERS.items():
        members = [custom for custom in customs if custom.of_core == (folder == _CORE)]
        documents |= {_path(folder, _file_name(custom)): ("", definition(custom)) for custom in members}
        documents[_path(folder, "kustomization.yaml")] = (header, kustomization([*map(_file_name, members)]))
    return {path: yaml_text([document]) for path, document in documents.items()}


def kept(custom: CustomResource) -> Object:
    """Returns the CRD of a custom resource, which Helm never deletes."""
    result = definition(custom)
    result["metadata"]["annotations"] = dict(_KEPT)
    return result


def definition(custom: CustomResource) -> Object:
    """Returns the CRD of a custom resource."""
    resource = custom.resource
    versions = [resource.version, *custom.also]
    metadata: Object = {"name": f"{resource.plural}.{resource.group}"}
    if custom.labels:
        metadata["labels"] = dict(custom.labels)
    if not custom.of_core:
        metadata["annotations"] = dict(_KEPT)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                **({"shortNames": [custom.short_name]} if custom.short_name else {}),
                "categories": ["cluster-api"],
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == resource.version,
                    "subresources": {"status": {}} if "status" in custom.root.model_fields else {},
                    "additionalPrinterColumns": list(_columns(custom.columns)),
                    "schema": {"openAPIV3Schema": schema(custom.root)},
                }
                for version in versions
            ],
        },
    }


def schema(root: type[Model]) -> Object:
    """Returns the structural schema of objects that the model `root` describes."""
    generated = root.model_json_schema(by_alias=True)
    root_schema: Object = structural(generated, generated.get("$defs", {}))
    builtin: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return root_schema | {"properties": builtin | root_schema["properties"]}


def structural(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Converts a node of a JSON schema and all nodes below it. Raises ValueError for a union of several types."""
    if "$ref" in node:
        target = deepcopy(definitions[node["$ref"].rpartition("/")[2]])
        return structural(target | {name: value for name, value in node.items() if name != "$ref"}, definitions)
    if "anyOf" in node:
        return structural(_optional(node), definitions)
    result = {name: value for name, value in node.items() if name not in _DROPPED}
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if result.get("description"):
        result["description"] = " ".join(result["description"].split())
    if "properties" in node:
        result["properties"] = {name: structural(child, definitions) for name, child in node["properties"].items()}
    if "items" in node:
        result["items"] = structural(node["items"], definitions)
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(node["additionalProperties"], definitions)
    return result


def _optional(node: Mapping[str, Any]) -> Object:
    """Converts `X | None` to the schema of X: without a default the field is nullable, with one it is optional."""
    (choice, *others) = [option for option in node["anyOf"] if option.get("type") != "null"]
    if others:
        raise ValueError(f"a structural schema has no unions: {node}")
    rest: Object = {name: value for name, value in node.items() if name not in ("anyOf", "default")}
    if node.get("default") is not None:
        rest["default"] = node["default"]
    elif "default" not in node:
        rest["nullable"] = True
    return dict(choice) | rest


def _path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _file_name(custom: CustomResource) -> str:
    return f"{custom.resource.group}_{custom.resource.plural}.yaml"


def _columns(columns: Iterable[Column]) -> Iterable[Object]:
    for column in columns:
        described: Object = {"name": column.name, "type": column.type, "jsonPath": column.path}
        yield described | ({"priority": 1} if column.wide else {})
