"""Finds CustomResourceDefinitions, lists their objects, and waits until they are established."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from .client import Client
from .errors import ApiError, NotServed
from .resources import Key, Object, Resource, deleting, dig

CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

_SERVED_PAUSE = 0.03
"""Seconds after which an established version is served."""
_ESTABLISHED_SECONDS = 30.0
"""Seconds in which CRDs have to become established."""
_WATCH_SECONDS, _LONGEST_WATCH = 5, 20
"""Seconds of the first watch and of the longest; each is twice as long as the one before. A read follows each watch,
because a CRD that had failed before the watch never changes."""
_FIRST_PAUSE = 0.1
"""Seconds until the first read; the pause doubles from read to read. Each reads whole CRDs."""
_LONGEST_PAUSE = 2.0
"""The maximum number of seconds until the next read. A server that needs so long is busy, and reads would delay it."""
_LIST_FROM = 2
"""From this number of CRDs on, one list request is cheaper than a get request for each."""


def stored_resource(crd: Object) -> Resource | None:
    """Returns the resource of a CRD in the version that objects are stored in, or else in another served version.

    Reading any other version needs a conversion by a webhook, which may no longer run. Returns None if no version is
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
    """Returns the CRD that defines this kind, in any version; None proves that no object of the kind exists.

    Discovery cannot prove that, because it lags behind. Raises `ApiError`.
    """
    return client.find(CRD, Key("", f"{resource.plural}.{resource.group}"))


def list_defined(client: Client, resource: Resource, namespace: str = "", *, selector: str = "") -> Iterator[Object]:
    """Yields all objects of a custom kind. An empty result is reliable, because this looks up a defining CRD.

    Raises `NotServed` if the kind is defined but not served in this version, because its objects are unknown then.
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


def await_all_established(client: Client, crds: Iterable[Object]) -> dict[str, str]:
    """Waits until CRDs that were just applied are established, with one watch of them.

    `crds` are the server's responses to the applies. Returns the reasons, by name, of CRDs that did not become
    established: a time-out, names that belong to another CRD, or a deletion. Raises `ApiError`.
    """
    waiting = {crd["metadata"]["name"]: crd for crd in crds if not _is_established(crd)}
    deadline, seconds, pause = time.monotonic() + _ESTABLISHED_SECONDS, _WATCH_SECONDS, _FIRST_PAUSE
    problems: dict[str, str] = {}

    def note(name: str, crd: Object | None) -> None:
        if reason := _failure(crd):
            problems[name] = f"CRD {name} {reason}"
        if reason or crd is None or _is_established(crd):
            del waiting[name]
        else:
            waiting[name] = crd

    while waiting:
        # Without a watch, such as without the right to it, the CRDs are read.
        with suppress(ApiError), closing(_changes(client, waiting.copy(), seconds)) as changes:
            for name, crd in changes:
                if name in waiting:
                    note(name, crd)
                if not waiting:
                    break
        if waiting:
            time.sleep(pause)
            for name, crd in _read(client, list(waiting.values())).items():
                note(name, crd)
        if waiting and time.monotonic() > deadline:
            late = f"was not established within {_ESTABLISHED_SECONDS:g} s"
            return problems | {name: f"CRD {name} {late}" for name in waiting}
        seconds, pause = min(seconds * 2, _LONGEST_WATCH), min(pause * 2, _LONGEST_PAUSE)
    time.sleep(_SERVED_PAUSE)  # even if all were established: a changed version is served only a moment later
    return problems


def _changes(
    client: Client, crds: Mapping[str, Object], seconds: int
) -> Generator[tuple[str, Object | None], None, None]:
    """Yields name and newer content of each of these CRDs; None as the content of a deleted CRD.

    A watch without a version begins with the present state.
    """
    with closing(client.watch(CRD, version="", selector=_common_labels(crds.values()), seconds=seconds)) as events:
        for event in events:
            crd, name = event["object"], event["object"]["metadata"].get("name", "")
            if name in crds and _is_newer(crd, crds[name]):
                yield name, None if event["type"] == "DELETED" else crd


def _is_newer(crd: Object, known: Object) -> bool:
    """Returns whether a CRD was changed since the known one: a watch may begin with an earlier state."""
    return int(crd["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])


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
    selector = _common_labels(crds)
    listed: dict[str, Object] = {}
    if len(crds) >= _LIST_FROM and selector:
        listed = {crd["metadata"]["name"]: crd for crd in client.list(CRD, selector=selector)}
    return {name: listed.get(name) or client.find(CRD, Key("", name)) for name in names}


def _common_labels(crds: Iterable[Object]) -> str:
    """Returns a selector for the labels that all these CRDs have; empty if they have none in common."""
    common = set.intersection(*(set(dig(crd, "metadata.labels", {}).items()) for crd in crds))
    return ",".join(f"{name}={value}" for name, value in sorted(common))
