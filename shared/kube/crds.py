"""Finds CustomResourceDefinitions, lists their objects, and waits until they are established."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from .client import Client
from .errors import NotServed
from .resources import Key, Object, Resource, deleting, dig

CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

_SERVED_PAUSE = 0.03
"""Seconds after which an established version is served."""
_FIRST_PAUSE = 0.1
"""Seconds until the first poll; the pause doubles from poll to poll. Each poll reads whole CRDs."""
_LONGEST_PAUSE = 2.0
"""Most seconds between two polls. A server that needs so long is busy: polls would delay it further."""
_LIST_FROM = 2
"""The number of CRDs from which one list request is cheaper than a get request for each."""


def stored_resource(crd: Object) -> Resource | None:
    """Returns the resource of a CRD in the version that objects are stored in, or else in another served version.

    Reading any other version needs a conversion by a webhook, which may not run any more. Returns None if no version is
    served.
    """
    served = [version for version in dig(crd, "spec.versions", []) if version.get("served")]
    if not served:
        return None
    version = next((each for each in served if each.get("storage")), served[0])
    names, namespaced = dig(crd, "spec.names"), dig(crd, "spec.scope") == "Namespaced"
    return Resource(dig(crd, "spec.group"), version["name"], names["kind"], names["plural"], namespaced)


def definitions(documents: Iterable[object]) -> list[Object]:
    """Returns the CRDs among the documents of YAML files."""
    return [doc for doc in documents if isinstance(doc, dict) and doc.get("kind") == CRD.kind]


def install_definitions(client: Client, crds: Sequence[Object], *, manager: str) -> None:
    """Applies CRDs, and waits until the API server serves each of them. Raises `ApiError` or `TimeoutError`."""
    for crd in crds:
        client.apply(CRD, crd, manager=manager)
    for crd in crds:
        await_established(client, crd["metadata"]["name"])


def find_definition(client: Client, resource: Resource) -> Object | None:
    """Returns the CRD that defines this kind, whatever its versions; None proves that no object of the kind exists.

    Discovery cannot prove that, since it lags behind. Raises `ApiError`.
    """
    return client.find(CRD, Key("", f"{resource.plural}.{resource.group}"))


def list_defined(client: Client, resource: Resource, namespace: str = "", *, selector: str = "") -> Iterator[Object]:
    """Yields all objects of a custom kind; an empty result is reliable, since a CRD that defines the kind is looked up.

    Raises `NotServed` if the kind is defined but not served in this version: then its objects are unknown.
    """
    try:
        yield from client.list(resource, namespace, selector=selector)
    except NotServed as error:
        crd = find_definition(client, resource)
        if crd is not None:
            raise _version_not_served(resource, crd) from error


def _version_not_served(resource: Resource, crd: Object) -> NotServed:
    served = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    found = f"serves it as {', '.join(served)} only" if served else "does not serve it in any version"
    needed = f"; {resource.needs} is needed" if resource.needs else ""
    return NotServed(
        f"{resource.kind} list: {resource.api_version} is needed, the API server {found}{needed}", status=404
    )


def await_established(client: Client, name: str) -> Object:
    """Waits until the CRD `name` is established. Returns the CRD as it was read before the wait.

    Raises `TimeoutError` with the reason if the CRD is not established in time.
    """
    crd = client.get(CRD, Key("", name))
    if problem := await_all_established(client, [crd]).get(name):
        raise TimeoutError(problem)
    return crd


def await_all_established(client: Client, crds: Iterable[Object], *, within: float = 30.0) -> dict[str, str]:
    """Waits until CRDs that were just applied are established.

    `crds` are the server's responses to the applies, `within` is in seconds. Returns a reason for each CRD, by name,
    that did not become established: it timed out, its names belong to another CRD, or it was deleted.
    Raises `ApiError`.
    """
    waiting = [crd for crd in crds if not _is_established(crd)]
    deadline, pause = time.monotonic() + within, _FIRST_PAUSE
    problems: dict[str, str] = {}
    time.sleep(_SERVED_PAUSE)  # even if all are established: a changed version is served only a moment later
    while waiting:
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
        found = _read(client, waiting)
        for name, crd in found.items():
            if reason := _failure(crd):
                problems[name] = f"CRD {name} {reason}"
        waiting = [crd for name, crd in found.items() if crd and name not in problems and not _is_established(crd)]
        if waiting and time.monotonic() > deadline:
            names = [crd["metadata"]["name"] for crd in waiting]
            return problems | {name: f"CRD {name} was not established within {within:g} s" for name in names}
    return problems


def _failure(crd: Object | None) -> str:
    """Returns why the CRD will not become established, empty if it still may."""
    if crd is None or deleting(crd):
        return "was deleted meanwhile"
    if _is_established(crd):
        return ""
    rejected = _condition(crd, "NamesAccepted", "False")
    return f"is not accepted: {rejected.get('message')}" if rejected else ""


def _is_established(crd: Object) -> bool:
    return bool(_condition(crd, "Established", "True"))


def _condition(crd: Object, type_: str, status: str) -> Object:
    """Returns the condition of this type and status, empty if there is none."""
    conditions = dig(crd, "status.conditions", [])
    return next((entry for entry in conditions if (entry["type"], entry["status"]) == (type_, status)), {})


def _read(client: Client, crds: Sequence[Object]) -> dict[str, Object | None]:
    """Reads the CRDs again, by one list with their common labels or one by one. A deleted CRD becomes None."""
    names = [crd["metadata"]["name"] for crd in crds]
    common = set.intersection(*(set(dig(crd, "metadata.labels", {}).items()) for crd in crds))
    listed: dict[str, Object] = {}
    if len(crds) >= _LIST_FROM and common:
        selector = ",".join(f"{name}={value}" for name, value in sorted(common))
        listed = {crd["metadata"]["name"]: crd for crd in client.list(CRD, selector=selector)}
    return {name: listed.get(name) or client.find(CRD, Key("", name)) for name in names}
