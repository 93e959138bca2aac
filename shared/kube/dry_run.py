"""A client that only supposes: each of its writes is a dry run, and its later reads see what would be there then.

Code that works on a cluster runs on it unchanged, to find out what it would do.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .client import Client
from .crds import CRD
from .errors import NO_OBJECT, ApiError, NotFound, NotServed
from .resources import Key, Object, Resource, dig, key_of

_READS = ("GET", "HEAD")
_Place = tuple[str, str, Key]


class DryRun(Client):
    """Supposes over what `client` reads. What a dry run cannot know is answered from what was supposed before: an
    object of a new kind, or in a new namespace, comes back as it was sent, without a uid.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client._credentials, attempts=client._attempts, cluster=client._cluster)
        self._supposed: dict[_Place, Object | None] = {}

    def suppose(self, resource: Resource, obj: Object) -> None:
        """From now on reads find `obj`."""
        self._supposed[_place(resource, key_of(obj))] = obj

    def get(self, resource: Resource, key: Key) -> Object:
        place = _place(resource, key)
        if place not in self._supposed:
            return super().get(resource, key)
        found = self._supposed[place]
        if found is None:
            raise NotFound(f"{resource.kind} {key} would be gone", status=404, body=NO_OBJECT)
        return deepcopy(found)

    def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        manager: str,
        force: bool = True,
        dry_run: bool = True,  # noqa: ARG002 - it always is
    ) -> Object:
        place = _place(resource, key_of(obj))
        if place in self._supposed and self._supposed[place] is None:
            result = deepcopy(obj)  # made anew; the server would compare it with the old one
        else:
            try:
                result = super().apply(resource, obj, manager=manager, force=force, dry_run=True)
            except (NotFound, NotServed) as error:
                if not self._comes_first(resource, obj, error):
                    raise
                result = deepcopy(obj)
        if (resource.group, resource.kind) == (CRD.group, CRD.kind):
            result = {**result, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
        self._supposed[place] = result
        return result

    def delete(self, resource: Resource, key: Key, *, uid: str = "", version: str = "") -> None:  # noqa: ARG002 - whoever gives them has looked
        """Sends nothing: options for a deletion are a body, and a server that overlooks it deletes."""
        self._supposed[_place(resource, key)] = None

    def request(self, method: str, path: str, **options: Any) -> Object:
        if method not in _READS:
            if method == "DELETE":
                raise TypeError("a dry run sends no deletion")
            options["query"] = {**(options.get("query") or {}), "dryRun": "All"}
        return super().request(method, path, **options)

    def _comes_first(self, resource: Resource, obj: Object, error: ApiError) -> bool:
        """Whether what the server does not know, the namespace or the kind of `obj`, is supposed to come."""
        if dig(error.body, "details.kind") == "namespaces":
            return self._supposed.get(("", "Namespace", Key("", obj["metadata"]["namespace"]))) is not None
        return self._supposed.get((CRD.group, CRD.kind, Key("", f"{resource.plural}.{resource.group}"))) is not None


def _place(resource: Resource, key: Key) -> _Place:
    return resource.group, resource.kind, key if resource.namespaced else Key("", key.name)
