"""Names the objects that are being deleted and wait for a function that removes its finalizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.kube import ApiError, Client, Object, Unavailable, deleting, dig, has_finalizer, key_of
from shared.kube.client import METADATA_LIST
from shared.triggers import Triggers


@dataclass(frozen=True)
class WaitingObject:
    """An object that is being deleted, and the function that it waits for."""

    kind: str
    name: str
    finalizer: str
    function: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} waits for the function {self.function} (finalizer {self.finalizer})"


def finalizers(obj: Mapping[str, Any], declared: Iterable[Triggers]) -> list[Object]:
    """Returns the finalizers of an object that is being deleted, each with the function that removes it if it is ours.

    Returns an empty list for an object that is not being deleted.
    """
    functions = {triggers.finalizer: triggers.name for triggers in declared if triggers.finalizer}
    names = dig(obj, "metadata.finalizers", []) if deleting(obj) else []
    return [{"name": name, "function": functions.get(name)} for name in names]


def waiting_objects(client: Client, declared: Iterable[Triggers], namespace: str = "") -> Iterator[WaitingObject]:
    """Yields the objects that are being deleted and wait for one of these functions.

    Kinds that are not served or may not be listed are left out. If the API server does not answer, the search ends.
    """
    for triggers in declared:
        for resource in triggers.primaries if triggers.finalizer else ():
            try:
                for page in client.pages(resource, namespace, accept=METADATA_LIST):
                    for obj in page["items"]:
                        if deleting(obj) and has_finalizer(obj, triggers.finalizer):
                            yield WaitingObject(resource.kind, str(key_of(obj)), triggers.finalizer, triggers.name)
            except Unavailable:
                return
            except ApiError:
                continue
