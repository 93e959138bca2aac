"""Indexes the references between watched objects, for watches with `referenced_by`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from shared.kube import Key, Object, key_of
from shared.triggers import Referrer, Watch

from .specs import InformerSpec

log = logging.getLogger("capi-functions.events")


class ReferenceIndex:
    """The references of all watched objects. All informers share one index."""

    def __init__(self, watched: Iterable[InformerSpec]) -> None:
        watched = list(watched)
        self._lock = threading.Lock()
        self._referenced: dict[Referrer, dict[Key, frozenset[Key] | None]] = {}
        """The references of each object; None if they could not be determined."""
        complete = {spec.resource for spec in watched if spec.complete}
        self._incomplete = {spec.resource for spec in watched} - complete
        """The kinds of which only some objects are watched, or without their content."""
        for _, watch in (named for spec in watched for named in spec.watches):
            self._referenced |= {referrer: {} for referrer in watch.referenced_by if referrer.resource in complete}

    def update(self, spec: InformerSpec, obj: Object) -> None:
        """Updates the references of an object; called before the change is reported."""
        for referrer, referenced in self._referenced.items():
            if referrer.resource != spec.resource or not spec.complete:
                continue
            try:
                references = frozenset(referrer.references(obj))
            except Exception:  # a declaration that fails on an object must not end the watch
                log.exception("the references of %s %s could not be determined", spec, key_of(obj))
                references = None
            with self._lock:
                referenced[key_of(obj)] = references

    def forget(self, spec: InformerSpec, key: Key) -> None:
        """Removes the references of a deleted object."""
        with self._lock:
            for referrer, referenced in self._referenced.items():
                if referrer.resource == spec.resource:
                    referenced.pop(key, None)

    def is_referenced(self, watch: Watch, key: Key) -> bool:
        """Returns whether the object is, or may be, referenced. True for a watch without referrers.

        Objects of a kind that no function watches do not count, because no function reconciles them.
        """
        if not watch.referenced_by:
            return True
        either = {key, Key(key.namespace, "")}
        with self._lock:
            return any(
                referrer.resource in self._incomplete
                or any(
                    references is None or not references.isdisjoint(either)
                    for references in self._referenced.get(referrer, {}).values()
                )
                for referrer in watch.referenced_by
            )
