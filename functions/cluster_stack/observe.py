"""Reads the inputs of a decision about one ClusterStack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.download import Listing, SourceError
from shared.kube import NotServed, Object, deleting, dig, key_of, owned_by
from shared.kube.crds import list_defined
from shared.references import LookupResult, get_reference
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import scope_of, source_of_stack
from shared.releases.usage import Users, users_by_release
from shared.runtime import Request
from shared.settings import SETTINGS

from .selection import Selection, auto_subscribes, select, stack_prefix

MAX_OFFERED = 10_000
"""The maximum number of a ClusterStack's releases that are considered in a source."""
POLL = 300.0
"""The default of `RELEASE_POLL_SECONDS`: seconds between two lists of the source."""
_UNREFERENCED = LookupResult("unreferenced")


@dataclass(frozen=True)
class SourceListing:
    """The releases that the source offers, or why the list is missing or incomplete."""

    names: Sequence[str] | None = None
    """None if no request was sent, or the source did not answer."""
    config_error: str = ""
    """Why no request can be sent to the source."""
    failure: str = ""
    """Why requests to the source failed, wholly or in part."""
    blocked_until: datetime | None = None
    """The source accepts no requests before this time (`Retry-After`)."""


@dataclass(frozen=True)
class Rejection:
    """A write that the API server rejected, and the condition that reports it."""

    condition: str
    message: str


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one ClusterStack."""

    stack: Object | None
    releases: tuple[Object, ...] = ()
    """The ClusterStackReleases that the stack owns."""
    listing: SourceListing = field(default_factory=SourceListing)
    selection: Selection = field(default_factory=Selection)
    users: Users = field(default_factory=dict)
    """The Clusters that use each release; only read if releases are obsolete."""
    failure: str = ""
    """Why the users of the releases could not be read; no release is deleted then."""
    template: LookupResult = _UNREFERENCED
    poll: float = POLL
    """Seconds until the source is listed again."""
    rejections: tuple[Rejection, ...] = ()
    """The writes that the API server rejected; known once the effects were executed."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the stack's releases, the list of its source, the template, and the users of obsolete releases."""
    key, stack = request.key, request.primary
    if stack is None or cluster_api.is_paused(stack):
        return Observed(stack)
    listed = clients.management.list(CLUSTER_STACK_RELEASE, key.namespace)
    releases = tuple(release for release in listed if owned_by(release, stack))
    if deleting(stack):
        return Observed(stack, releases)
    spec = stack.get("spec") or {}
    listing = _list_source(clients, stack)
    owned = {
        tag: usable(release)
        for release in releases
        if ReleaseName.from_class_name(tag := key_of(release).name)  # objects with other names are not ours
    }
    selection = select(spec, owned, listing.names)
    using, failure = _users(clients) if selection.obsolete else ({}, "")
    return Observed(
        stack,
        releases,
        listing,
        selection,
        using,
        failure,
        get_reference(clients, None if spec.get("noProvider") is True else spec.get("providerRef"), key.namespace),
        _poll(),
    )


def usable(release: Object) -> bool:
    """Returns whether a ClusterStackRelease is ready and not being deleted."""
    return dig(release, "status.ready") is True and not deleting(release)


def _poll() -> float:
    try:
        return max(0.1, float(SETTINGS.get("RELEASE_POLL_SECONDS") or POLL))
    except ValueError:
        return POLL


def _list_source(clients: Clients, stack: Object) -> SourceListing:
    """Lists the releases of the source, unless the source accepts no requests for now."""
    if not auto_subscribes(dig(stack, "spec", {})):
        return SourceListing()
    now = datetime.now(UTC)
    if (held := _load_held(stack)) and held.blocked_until and held.blocked_until > now:
        return held
    try:
        names = source_of_stack(clients, stack).source.list()
        problem = names.problem if isinstance(names, Listing) else ""
        names = [name for name in names if name.startswith(stack_prefix(dig(stack, "spec", {})))]
        if len(names) > MAX_OFFERED:
            problem = f"the source offers {len(names)} releases, of which only the first {MAX_OFFERED} are considered"
        return SourceListing(Listing(names[:MAX_OFFERED], problem), failure=problem)
    except SourceError as error:
        if not error.transient:
            return SourceListing(config_error=str(error))
        return SourceListing(
            failure=str(error), blocked_until=now + timedelta(seconds=error.retry_after) if error.retry_after else None
        )


def _load_held(stack: Object) -> SourceListing | None:
    """Returns the failure of the same sources that `status.held` records; None if it records none."""
    held = dig(stack, "status.held", {})
    if held.get("sources") != scope_of(stack):
        return None
    try:
        return SourceListing(failure=str(held["message"]), blocked_until=datetime.fromisoformat(held["until"]))
    except (KeyError, ValueError, TypeError):
        return None


def _users(clients: Clients) -> tuple[Users, str]:
    """Returns the users of releases in all namespaces, which may use a class of this one, and an error text."""
    try:
        return users_by_release(list_defined(clients.management, CLUSTER)), ""
    except NotServed as error:
        return {}, str(error)
