"""The observed state of one Cluster: all inputs of a decision about it, except the time."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.api.core import CoreState
from shared.kube import Object, Resource
from shared.references import LookupResult

from .descendants import Descendants
from .probe import Probe

_UNREFERENCED = LookupResult("unreferenced")


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster."""

    cluster: Object | None
    infrastructure: LookupResult = _UNREFERENCED
    control_plane: LookupResult = _UNREFERENCED
    descendants: Descendants | None = field(default_factory=dict)
    """The Cluster's Machines and their owners; during its deletion, all its objects. None: not read."""
    failure: str = ""
    """Why the descendants could not be listed."""
    class_gates: tuple[Object, ...] | None = ()
    """The availability gates of the ClusterClass, unless the Cluster's replace them; None: not read."""
    probe: Probe | None = None
    """The outcome of an attempt to connect to the workload cluster; None: there was none."""
    recorded: bool = False
    """Whether nothing was read: the objects are as the Cluster's status records them."""
    ended_wait: bool = False
    """Whether the event may have replaced a requeue of this function, which must then request it again."""
    core: CoreState = "none"
    """Whether Cluster API core manages the Cluster, see `core_state`. If so, nothing else is read until core allows
    the deletion."""
    unwatched: tuple[Resource, ...] = ()
    """The kinds of referenced objects whose changes start no function, although they follow a contract."""
    look: bool = False
    """Whether the event is a resync, which also reports facts that no change shows."""
