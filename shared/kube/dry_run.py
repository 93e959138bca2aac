"""A client for previews: each write is a dry run, and later reads return the result as if it had been stored.

Code that changes a cluster runs unchanged on this client, to preview its changes.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .client import Client
from .crds import CRD
from .errors import NOT_FOUND_BODY, ApiError, NotFound, NotServed
from .resources import Key, Object, Resource, dig, key_of

_READS = ("GET", "HEAD")
_ObjectId = tuple[str, str, Key]


class DryRunClient(Client):
    """A client that reads like `client`, overlaid with the results of its own dry runs.

    The server cannot dry-run an object of a kind or in a namespace that only exists in the overlay, so such an object
    is returned as it was sent, without a uid.
    """

    def __init__(self, client: Client) -> None:
        transport = client._transport
        super().__init__(transport.credentials, attempts=client._attempts, cluster=transport.cluster)
        self._overlay: dict[_ObjectId, Object | None] = {}
        """None for an object that was deleted."""

    def assume(self, resource: Resource, obj: Object) -> None:
        """Puts `obj` into the overlay: later reads return it."""
        self._overlay[_id(resource, key_of(obj))] = obj

    def get(self, resource: Resource, key: Key) -> Object:
        """Returns the object of the overlay, or else of the server. Raises `NotFound` if a dry run deleted it."""
        identity = _id(resource, key)
        if identity not in self._overlay:
            return super().get(resource, key)
        found = self._overlay[identity]
        if found is None:
            raise NotFound(f"{resource.kind} {key} would be deleted", status=404, body=NOT_FOUND_BODY)
        return deepcopy(found)

    def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        manager: str,
        force: bool = True,
        dry_run: bool = True,  # noqa: ARG002 - always a dry run
    ) -> Object:
        """Applies the object as a dry run and puts the result into the overlay; a CRD becomes established at once."""
        identity = _id(resource, key_of(obj))
        if identity in self._overlay and self._overlay[identity] is None:
            result = deepcopy(obj)  # not dry-run: the server would merge it with the object that is to be deleted
        else:
            try:
                result = super().apply(resource, obj, manager=manager, force=force, dry_run=True)
            except (NotFound, NotServed) as error:
                if not self._is_assumed(resource, obj, error):
                    raise
                result = deepcopy(obj)
        if (resource.group, resource.kind) == (CRD.group, CRD.kind):
            result = {**result, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
        self._overlay[identity] = result
        return result

    def delete(self, resource: Resource, key: Key, *, uid: str = "", version: str = "") -> None:  # noqa: ARG002 - no request is sent
        """Marks the object as deleted in the overlay and sends no request.

        The dry-run option of a deletion is in its body: a server or proxy that ignores the body would delete.
        """
        self._overlay[_id(resource, key)] = None

    def request(self, method: str, path: str, **options: Any) -> Object:
        """Sends the request, a write as a dry run. Raises `TypeError` for a deletion."""
        if method not in _READS:
            if method == "DELETE":
                raise TypeError("a dry run sends no deletion")
            options["query"] = {**(options.get("query") or {}), "dryRun": "All"}
        return super().request(method, path, **options)

    def _is_assumed(self, resource: Resource, obj: Object, error: ApiError) -> bool:
        """Returns whether the missing namespace or kind of `obj` is in the overlay."""
        if dig(error.body, "details.kind") == "namespaces":
            return self._overlay.get(("", "Namespace", Key("", obj["metadata"]["namespace"]))) is not None
        return self._overlay.get((CRD.group, CRD.kind, Key("", f"{resource.plural}.{resource.group}"))) is not None


def _id(resource: Resource, key: Key) -> _ObjectId:
    return resource.group, resource.kind, key if resource.namespaced else Key("", key.name)
