"""The content of Secrets and ConfigMaps: its hash, which equals the hash of Cluster API, and its objects."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shared.api.resource_set import SOURCE_TYPE, SourceRef
from shared.api.resources import SECRET
from shared.bounded_yaml import Copier
from shared.kube import Object, dig
from shared.manifests import ManifestError, documents, identity, install_rank

MAX_BYTES = 16 << 20
"""Most bytes of all sources of a set together."""
MAX_VALUES = 1_000_000
"""Most values in the objects of a set, estimated by the characters before values."""
_BEFORE_VALUES = b"\n:,[{"

_FIRST = (("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition"))
"""The kinds that others need, in the order in which they are applied before the others."""


class SourceError(ValueError):
    """The content of a source cannot be applied. The message quotes nothing of a Secret."""


@dataclass(frozen=True)
class Source:
    """The content of a Secret or ConfigMap: each value by its key, in the order of the keys."""

    ref: SourceRef
    values: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, ref: SourceRef, obj: Mapping[str, Any]) -> Source:
        """Reads the source. Raises `SourceError` for content that is not base64."""
        texts, encoded = dig(obj, "data", {}), dig(obj, "binaryData", {})
        if ref.kind == SECRET.kind:
            texts, encoded = {}, texts
        try:
            decoded = {key: base64.b64decode(value or "", validate=True) for key, value in encoded.items()}
            values = {key: str(value or "").encode() for key, value in texts.items()} | decoded
        except ValueError:
            raise SourceError("a value is not base64") from None
        return cls(ref, {key: values[key] for key in sorted(values, key=str.encode)})

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of all values, as Cluster API computes it from `data`."""
        return f"sha256:{hashlib.sha256(b''.join(self.values.values())).hexdigest()}"

    @property
    def is_secret(self) -> bool:
        """Whether the source is a Secret, so that nothing of it may be quoted."""
        return self.ref.kind == SECRET.kind

    @property
    def weight(self) -> tuple[int, int]:
        """The number of bytes, and about how many values there are in its objects."""
        values = self.values.values()
        return sum(map(len, values)), sum(value.count(mark) for value in values for mark in _BEFORE_VALUES)

    def objects(self, copier: Copier | None = None) -> list[Object]:
        """Returns the objects in the order of the keys; `copier` is the copier of all sources. Raises `SourceError`.

        A source without content fails, because `ApplyOnce` would ignore the content that it gets later.
        """
        if not any(value.strip() for value in self.values.values()):
            raise SourceError("the source has no content")
        return [obj for key, value in self.values.items() for obj in self._objects(key, value, copier)]

    def _objects(self, key: str, value: bytes, copier: Copier | None) -> Iterator[Object]:
        place = f"key {key}"
        try:
            text = value.decode()
            if text.lstrip().startswith("["):  # a list of objects, as Cluster API reads it
                text = f'{{"kind": "List", "items": {text}\n}}'
            for _, obj in documents(place, text, copier):
                yield obj
        except ManifestError as error:
            problem = "does not contain Kubernetes objects as YAML or JSON"
            raise SourceError(f"{place} {problem}" if self.is_secret else str(error)) from None
        except UnicodeDecodeError:
            raise SourceError(f"{place} is not UTF-8 text") from None


def has_wrong_type(ref: SourceRef, obj: Mapping[str, Any]) -> bool:
    """Returns whether the source is a Secret without the type that lets its content be applied."""
    return ref.kind == SECRET.kind and dig(obj, "type") != SOURCE_TYPE


@dataclass(frozen=True)
class SourceObject:
    """An object and the source that contains it."""

    source: Source
    obj: Object = field(repr=False)

    def __str__(self) -> str:
        return str(identity(self.obj))


def parse_all(sources: Iterable[Source]) -> tuple[list[SourceObject], dict[SourceRef, str]]:
    """Returns the objects of all sources in the order to apply them in, and the problem of each unusable source.

    Namespaces come first, then CRDs, then the others in Helm's install order; else the order of the sources holds.
    """
    found: list[SourceObject] = []
    problems: dict[SourceRef, str] = {}
    size = values = 0
    copier = Copier()
    for source in sources:
        more = source.weight
        size, values = size + more[0], values + more[1]
        try:
            if size > MAX_BYTES or values > MAX_VALUES:
                raise SourceError(
                    f"all sources together have more than {MAX_BYTES >> 20} MiB or {MAX_VALUES} values: "
                    "move some of them to another ClusterResourceSet"
                )
            found += [SourceObject(source, obj) for obj in source.objects(copier)]
        except SourceError as error:
            problems[source.ref] = str(error)
    return sorted(found, key=lambda one: (phase(one.obj), install_rank(one.obj))), problems


def phase(obj: Mapping[str, Any]) -> int:
    """Returns the phase in which an object is applied: 0 for namespaces, 1 for CRDs, 2 for all others."""
    group, kind = identity(obj)[:2]
    return _FIRST.index((group, kind)) if (group, kind) in _FIRST else len(_FIRST)


def by_phase(objects: Sequence[SourceObject]) -> Iterator[list[SourceObject]]:
    """Yields the objects of each phase that has any."""
    for number in range(len(_FIRST) + 1):
        if of_phase := [one for one in objects if phase(one.obj) == number]:
            yield of_phase
