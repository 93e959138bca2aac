"""Reads the objects of YAML manifests, and checks that each of them is an object and occurs once."""

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
    """YAML text of any number of objects, and the chart's file that it comes from."""

    source: str
    text: str


def parse(texts: Iterable[Manifest], *, default_namespace: str) -> list[Object]:
    """The objects, in the order of the texts and as written there: no namespace is filled in.

    Empty documents are skipped, lists replaced by their items, and objects left out whose only Helm hooks are about
    tests, deletion or rollback. An object without a namespace and one in `default_namespace` count as the same.
    Raises ManifestError, which names the file and the document's number in it, for anything that is no object or
    occurs twice.
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
    """Each object with the words for its place."""
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
            raise ManifestError(f"{place}: {document['kind']} has 'items' that is no list")
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
            raise ManifestError(f"{place}: {obj.get('kind') or 'an object'} has no {path}, or not as text")
    if not isinstance(dig(obj, "metadata.namespace", ""), str):
        raise ManifestError(f"{place}: {obj['kind']} has a metadata.namespace that is no text")
    return obj
