"""Parses YAML manifests, and checks that each document is a Kubernetes object and that no two have one identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, NamedTuple

from shared import bounded_yaml
from shared.kube.resources import Object, dig

from .objects import Identity, identity
from .waves import APPLIED_HOOKS, hooks_of


class ManifestError(ValueError):
    """The text of a manifest is not a sequence of Kubernetes objects."""


class Manifest(NamedTuple):
    """YAML text with any number of objects; `source` is the file of the chart that it was rendered from."""

    source: str
    text: str


def parse(texts: Iterable[Manifest], *, default_namespace: str, hooks: Set[str] = APPLIED_HOOKS) -> list[Object]:
    """Returns the objects in the order of the texts, as written: no namespace is filled in.

    Empty documents and exact repetitions of an object are skipped, and lists replaced by their items. Objects that
    run only as other Helm hooks are left out.

    Args:
        texts: The manifests.
        default_namespace: An object without a namespace counts as one in this namespace when duplicates are found.
        hooks: The Helm hooks to return; by default not the hooks of tests, deletion and rollback.

    Raises:
        ManifestError: A document is not an object, or two objects of one identity differ; the message names file and
            document.
    """
    objects: list[Object] = []
    seen: dict[Identity, tuple[str, Object]] = {}
    copier = bounded_yaml.Copier()
    for source, text in texts:
        for place, obj in documents(source, text, copier):
            if hooks_of(obj) and not hooks_of(obj) & hooks:
                continue
            written = identity(obj)
            unique = written._replace(namespace=written.namespace or default_namespace)
            complete = {**obj, "metadata": {**obj["metadata"], "namespace": unique.namespace}}
            if unique not in seen:
                seen[unique] = place, complete
                objects.append(obj)
            elif seen[unique][1] != complete:
                first = seen[unique][0]
                raise ManifestError(f"{place}: {written} occurs twice with different content, first in {first}")
    return objects


def documents(source: str, text: str, copier: bounded_yaml.Copier | None = None) -> Iterator[tuple[str, Object]]:
    """Yields each object with its place in the manifest: the file and the number of the document.

    Skips empty documents, and replaces lists by their items. The copier limits the values of all manifests together.
    Raises `ManifestError`.
    """
    place = f"{source}, document 1"
    try:
        for number, document in enumerate(bounded_yaml.load_all(text, copier=copier), start=1):
            place = f"{source}, document {number}"
            for obj in _flatten_lists(document, place):
                yield place, _validated(obj, place)
            place = f"{source}, document {number + 1}"
    except bounded_yaml.YAMLError as error:
        raise ManifestError(f"{place}: not YAML: {error}") from error


def _flatten_lists(document: Any, place: str) -> Iterator[Any]:
    if document is None:
        return
    if isinstance(document, dict) and "items" in document and str(document.get("kind")).endswith("List"):
        items = document["items"] or []
        if not isinstance(items, list):
            raise ManifestError(f"{place}: {document['kind']} has 'items' that are not a list")
        for item in items:
            yield from _flatten_lists(item, place)
    else:
        yield document


def _validated(obj: Any, place: str) -> Object:
    if not isinstance(obj, dict):
        raise ManifestError(f"{place}: must be a Kubernetes object, not a {type(obj).__name__}")
    for path in ("apiVersion", "kind", "metadata.name"):
        value = dig(obj, path)
        if not isinstance(value, str) or not value:
            raise ManifestError(f"{place}: {obj.get('kind') or 'an object'} has no {path}, or it is not a string")
    if not isinstance(dig(obj, "metadata.namespace", ""), str):
        raise ManifestError(f"{place}: {obj['kind']} has a metadata.namespace that is not a string")
    return obj
