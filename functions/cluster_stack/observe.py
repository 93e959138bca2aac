"""What is read for a decision about one ClusterStack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.clients import Clients, LookupResult
from shared.download import SourceError
from shared.kube import Key, NotServed, Object, deleting, dig, key_of, owned_by
from shared.kube.crds import list_defined
from shared.releases.naming import ReleaseName
from shared.releases.origin import of_stack, scope_of
from shared.releases.sources import Listing
from shared.releases.usage import Users, users
from shared.settings import SETTINGS

from .selection import Selection, select, subscribes

POLL = 300.0
_NOTHING = LookupResult("unreferenced")


@dataclass(frozen=True)
class Remote:
    """What the source offers; without an answer `names` is None. Where that, or part of it, is not known, one of the
    others says why.
    """

    names: Sequence[str] | None = None
    unusable: str = ""
    """The source cannot even be asked."""
    failure: str = ""
    held_until: datetime | None = None
    """Until then the source wants not to be asked."""


@dataclass(frozen=True)
class Refusal:
    """A write that the server refused, and the condition that tells of it."""

    condition: str
    message: str


@dataclass(frozen=True)
class Observed:
    stack: Object | None
    releases: tuple[Object, ...] = ()
    """The ClusterStackReleases that the stack owns."""
    remote: Remote = field(default_factory=Remote)
    selection: Selection = field(default_factory=Selection)
    users: Users = field(default_factory=dict)
    """Read only where something may have to go."""
    failure: str = ""
    """Why nobody can tell who uses the releases: none goes then."""
    template: LookupResult = _NOTHING
    poll: float = POLL
    """Seconds until the source is asked again."""
    refusals: tuple[Refusal, ...] = ()
    """Found out when the decision was carried out."""


def observe(clients: Clients, key: Key, stack: Object | None) -> Observed:
    if stack is None or cluster_api.is_paused(stack):
        return Observed(stack)
    listed = clients.management.list(CLUSTER_STACK_RELEASE, key.namespace)
    releases = tuple(release for release in listed if owned_by(release, stack))
    if deleting(stack):
        return Observed(stack, releases)
    spec = stack.get("spec") or {}
    remote = _remote(clients, stack)
    owned = {
        tag: usable(release)
        for release in releases
        if ReleaseName.from_class_name(tag := key_of(release).name)  # another's name is left alone
    }
    selection = select(spec, owned, remote.names)
    using, failure = _users(clients) if selection.superfluous else ({}, "")
    return Observed(
        stack,
        releases,
        remote,
        selection,
        using,
        failure,
        clients.get_reference(None if spec.get("noProvider") is True else spec.get("providerRef"), key.namespace),
        _poll(),
    )


def usable(release: Object) -> bool:
    return dig(release, "status.ready") is True and not deleting(release)


def _poll() -> float:
    try:
        return max(0.1, float(SETTINGS.get("RELEASE_POLL_SECONDS") or POLL))
    except ValueError:
        return POLL


def _remote(clients: Clients, stack: Object) -> Remote:
    if not subscribes(dig(stack, "spec", {})):
        return Remote()
    now = datetime.now(UTC)
    if (held := _held(stack)) and held.held_until and held.held_until > now:
        return held
    try:
        names = of_stack(clients, stack).source.list()
        return Remote(names, failure=names.problem if isinstance(names, Listing) else "")
    except SourceError as error:
        if not error.transient:
            return Remote(unusable=str(error))
        return Remote(
            failure=str(error), held_until=now + timedelta(seconds=error.retry_after) if error.retry_after else None
        )


def _held(stack: Object) -> Remote | None:
    """What the same sources said when they were asked last, if they wanted to be left in peace then."""
    held = dig(stack, "status.held", {})
    if held.get("sources") != scope_of(stack):
        return None
    try:
        return Remote(failure=str(held["message"]), held_until=datetime.fromisoformat(held["until"]))
    except (KeyError, ValueError, TypeError):
        return None


def _users(clients: Clients) -> tuple[Users, str]:
    """In all namespaces: a Cluster may use a class of another one. Or why they cannot be told."""
    try:
        return users(list_defined(clients.management, CLUSTER)), ""
    except NotServed as error:
        return {}, str(error)
