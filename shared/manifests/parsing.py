"""Parses the objects of YAML manifests, and checks that each document is an object and each object occurs once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from shared import bounded_yaml
from shared.kube.resources import Object, dig

from .objects import Identity, identity
from .waves import APPLIED_HOOKS, hooks_of


class ManifestError(ValueError):
    """A text is not a sequence of Kubernetes objects."""


class Manifest(NamedTuple):
    """YAML text of any number of objects, and the file of the chart that it is from."""

    source: str
    text: str


def parse(texts: Iterable[Manifest], *, default_namespace: str) -> list[Object]:
    """Returns the objects in the order of the texts, as written: no namespace is filled in.

    Empty documents are skipped, and lists replaced by their items. Objects whose only Helm hooks are for tests,
    deletion or rollback are left out.

    Args:
        texts: The manifests.
        default_namespace: Objects without a namespace and objects in this namespace count as the same.

    Raises:
        ManifestError: A document is not an object, or an object occurs twice; the message names file and document.
    """
    objects: list[Object] = []
    seen: dict[Identity, str] = {}
    for source, text in texts:
        for place, obj in _documents(source, text):
            if hooks_of(obj) and not hooks_of(obj) & APPLIED_HOOKS:
                continue
            found = identity(obj)
            same = found._replace(namespace=found.namespace or default_namespace)
            if same in seen:
                raise ManifestError(f"{place}: {found} occurs twice, first in {seen[same]}")
            seen[same] = place
            objects.append(obj)
    return objects


def _documents(source: str, text: str) -> Iterator[tuple[str, Object]]:
    """Yields each object with its place: file and number of the document."""
    place = f"{source}, document 1"
    try:
        for number, document in enumerate(bounded_yaml.load_all(text), start=1):
            place = f"{source}, document {number}"
            for obj in _expanded(document, place):
                yield place, _checked(obj, place)
            place = f"{source}, document {number + 1}"
    except bounded_yaml.YAMLError as error:
        raise ManifestError(f"{place}: not YAML: {error}") from error


def _expanded(document: Any, place: str) -> Iterator[Any]:
    if document is None:
        return
    if isinstance(document, dict) and "items" in document and str(document.get("kind")).endswith("List"):
        items = document["items"] or []
        if not isinstance(items, list):
            raise ManifestError(f"{place}: {document['kind']} has 'items' that are not a list")
        for item in items:
            yield from _expanded(item, place)
    else:
        yield document


def _checked(obj: Any, place: str) -> Object:
    if not isinstance(obj, dict):
        raise ManifestError(f"{place}: a {type(obj).__name__} where an object should be")
    for path in ("apiVersion", "kind", "metadata.name"):
        value = dig(obj, path)
        if not isinstance(value, str) or not value:
            raise ManifestError(f"{place}: {obj.get('kind') or 'an object'} has no {path}, or it is not a string")
    if not isinstance(dig(obj, "metadata.namespace", ""), str):
        raise ManifestError(f"{place}: {obj['kind']} has a metadata.namespace that is not a string")
    return obj
