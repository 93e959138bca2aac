"""CustomResourceDefinitions: one is of use only once the server says so."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from .client import Client
from .errors import NotServed
from .resources import Key, Object, Resource, deleting, dig

CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

_SOON = 0.03
_LIST_FROM = 3
"""CRDs from which on one list is cheaper than a look at each."""


def as_stored(crd: Object) -> Resource | None:
    """Its kind in the version that objects are stored in, if that is served; None where none is.

    Any other version takes a conversion, by a webhook that may not run (any more).
    """
    served = [version for version in dig(crd, "spec.versions", []) if version.get("served")]
    if not served:
        return None
    version = next((each for each in served if each.get("storage")), served[0])
    names, namespaced = dig(crd, "spec.names"), dig(crd, "spec.scope") == "Namespaced"
    return Resource(dig(crd, "spec.group"), version["name"], names["kind"], names["plural"], namespaced)


def definition(client: Client, resource: Resource) -> Object | None:
    """The CRD that defines this kind, in whatever version; None where there is none, and so no object of the kind.

    This is the API server's own word, while its discovery can be late. Raises `ApiError`.
    """
    return client.find(CRD, Key("", f"{resource.plural}.{resource.group}"))


def list_defined(client: Client, resource: Resource, namespace: str = "", *, selector: str = "") -> Iterator[Object]:
    """All objects of a custom kind; none only where no CRD defines the kind.

    Raises `NotServed` where it is defined, but not served in this version: then nobody knows what there is.
    """
    try:
        yield from client.list(resource, namespace, selector=selector)
    except NotServed as error:
        crd = definition(client, resource)
        if crd is not None:
            raise _only_elsewhere(resource, crd) from error


def _only_elsewhere(resource: Resource, crd: Object) -> NotServed:
    served = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    found = f"serves it as {', '.join(served)} only" if served else "does not serve it in any version"
    needed = f"; {resource.needs} is needed" if resource.needs else ""
    return NotServed(
        f"{resource.kind} list: {resource.api_version} is needed, the API server {found}{needed}", status=404
    )


def await_established(client: Client, name: str) -> Object:
    """The CRD `name`, once the server serves it. Raises `TimeoutError` with the reason where it comes to nothing."""
    crd = client.get(CRD, Key("", name))
    if problem := await_all(client, [crd]).get(name):
        raise TimeoutError(problem)
    return crd


def await_all(client: Client, crds: Iterable[Object], *, within: float = 30.0) -> dict[str, str]:
    """Waits until these, just applied and as the server answered then, are served.

    Returns the name of each that is not, with the reason: after `within` seconds, or as soon as somebody else has its
    names or it is gone. Raises `ApiError`.
    """
    waiting = [crd for crd in crds if not _says(crd, "Established", "True")]
    deadline, pause = time.monotonic() + within, _SOON
    problems: dict[str, str] = {}
    time.sleep(_SOON)  # in any case: one that was served before takes a moment to be what it is now
    while waiting:
        found = _look(client, waiting)
        for name, crd in found.items():
            if reason := _lost(crd):
                problems[name] = f"CRD {name} {reason}"
        waiting = [
            crd for name, crd in found.items() if crd and name not in problems and not _says(crd, "Established", "True")
        ]
        if waiting and time.monotonic() > deadline:
            names = [crd["metadata"]["name"] for crd in waiting]
            return problems | {name: f"CRD {name} was not established within {within:g} s" for name in names}
        if waiting:
            time.sleep(pause)
            pause = min(pause * 2, 0.5)
    return problems


def _lost(crd: Object | None) -> str:
    """Why it is of no use to wait for it."""
    if crd is None or deleting(crd):
        return "was deleted meanwhile"
    if _says(crd, "Established", "True"):
        return ""
    refused = _says(crd, "NamesAccepted", "False")
    return f"is not accepted: {refused.get('message')}" if refused else ""


def _says(crd: Object, type_: str, status: str) -> Object:
    found = dig(crd, "status.conditions", [])
    return next((entry for entry in found if (entry["type"], entry["status"]) == (type_, status)), {})


def _look(client: Client, crds: Sequence[Object]) -> dict[str, Object | None]:
    """These as they are now, None for one that is gone: on one list by the labels that all of them have, or each."""
    names = [crd["metadata"]["name"] for crd in crds]
    common = set.intersection(*(set(dig(crd, "metadata.labels", {}).items()) for crd in crds))
    listed: dict[str, Object] = {}
    if len(crds) >= _LIST_FROM and common:
        selector = ",".join(f"{name}={value}" for name, value in sorted(common))
        listed = {crd["metadata"]["name"]: crd for crd in client.list(CRD, selector=selector)}
    return {name: listed.get(name) or client.find(CRD, Key("", name)) for name in names}
