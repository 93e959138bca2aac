"""Applies spec.patches and spec.manifestPatches of a provider to the objects that they select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from shared import bounded_yaml
from shared.kube import selectors
from shared.kube.resources import Object, dig, split_api_version
from shared.kube.selectors import Requirement
from shared.manifests import identity

from .errors import PatchError
from .json_patch import Budget, apply_operations, merge

_IDENTITY: Final = ("apiVersion", "kind", "metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class ComponentsPatch:
    """One patch, and the objects that it selects.

    `where` is its path in the provider. `content` is a list of operations, or a mapping to merge. `target` has values
    that an object must have for `group`, `version`, `kind`, `namespace`, `name` or `apiVersion`.
    """

    where: str
    content: Any
    target: Mapping[str, str]
    labels: tuple[Requirement, ...] = ()

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Returns whether the patch applies to the object."""
        facts = _facts(obj)
        if any(facts.get(name) != value for name, value in self.target.items()):
            return False
        return not self.labels or selectors.matches(self.labels, _labels(obj))


def apply_patches(objects: Sequence[Object], provider: Object) -> list[Object]:
    """Returns the objects in their order, with the patches applied one after the other.

    Raises `PatchError`, which names the patch and the object.
    """
    patches = _patches(provider)
    result, own, budget = list(objects), set[int](), Budget()
    for patch in patches:
        for place, obj in enumerate(result):
            if patch.selects(obj):
                result[place] = _applied(patch, obj if place in own else deepcopy(obj), budget)
                own.add(place)
    return result


def _applied(patch: ComponentsPatch, obj: Object, budget: Budget) -> Object:
    """Returns the patched object; may change `obj` in place. Raises `PatchError`."""
    name = identity(obj)
    try:
        change = apply_operations if isinstance(patch.content, list) else merge
        result: Object = change(obj, patch.content, budget)
        if not _is_object(result):
            raise ValueError("the patched object needs apiVersion, kind and name, each as text")
    except ValueError as error:
        raise PatchError(f"{patch.where}: {name}: {error}") from error
    return result


def _is_object(value: Any) -> bool:
    *needed, namespace = (dig(value, path, "") for path in _IDENTITY)
    return all(text and isinstance(text, str) for text in needed) and isinstance(namespace, str)


def _labels(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    labels = dig(obj, "metadata.labels")
    return labels if isinstance(labels, Mapping) else {}


def _facts(obj: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values that a target can select by."""
    group, version = split_api_version(obj["apiVersion"])
    return {**identity(obj)._asdict(), "group": group, "version": version, "apiVersion": obj["apiVersion"]}


# -- patches of a provider ----------------------------------------------------------------------------------------


def _patches(provider: Object) -> list[ComponentsPatch]:
    patches, manifests = dig(provider, "spec.patches", []), dig(provider, "spec.manifestPatches", [])
    if patches and manifests:
        raise PatchError("spec.patches and spec.manifestPatches cannot be used together; use spec.patches for all")
    return [*_targeted(patches), *_matched(manifests)]


def _targeted(patches: Sequence[Mapping[str, Any]]) -> Iterator[ComponentsPatch]:
    for index, patch in enumerate(patches):
        where = f"spec.patches[{index}]"
        content = _content(patch.get("patch") or "", where)
        if not isinstance(content, list | dict):
            raise PatchError(f"{where}.patch: neither a list of operations nor a mapping to merge")
        target = {name: value for name, value in (patch.get("target") or {}).items() if value}
        try:
            labels = selectors.parse(target.pop("labelSelector", ""))
        except ValueError as error:
            raise PatchError(f"{where}.target.labelSelector: {error}") from error
        yield ComponentsPatch(where, content, target, labels)


def _matched(manifests: Sequence[str]) -> Iterator[ComponentsPatch]:
    """Yields manifest patches: their kind, apiVersion, name and namespace select the objects."""
    for index, text in enumerate(manifests):
        where = f"spec.manifestPatches[{index}]"
        content = _content(text, where)
        if not dig(content, "kind"):
            raise PatchError(f"{where}: needs the kind of the objects to patch")
        target = {path.rpartition(".")[2]: dig(content, path) for path in _IDENTITY}
        for name, value in target.items():
            if not isinstance(value, str | None):
                raise PatchError(f"{where}: {name} must be text; put it in quotes")
        yield ComponentsPatch(where, content, {name: value for name, value in target.items() if value})


def _content(text: str, where: str) -> Any:
    try:
        return bounded_yaml.load(text)
    except bounded_yaml.YAMLError as error:
        raise PatchError(f"{where}: not YAML: {error}") from error
