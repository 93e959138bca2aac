"""The changes that a page offers for one Cluster, each with the right that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from events.replay import replay_to
from infra.local.cluster_checks import is_allowed
from infra.operations.addons import rollback
from infra.operations.clusters import get_cluster
from infra.operations.failure import Failure
from shared.api.names import ROLLBACK_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import change_event
from shared.kube import Client, Key, Object, dig, key_of


@dataclass(frozen=True)
class Ingress:
    """Where a local run accepts events: its URL, and the file with its token."""

    url: str
    token: Path


@dataclass(frozen=True)
class Offer:
    """An action of a page.

    Attributes:
        name: Its name in the address.
        label: The text of its button.
        help: What it does, in one sentence.
        right: The missing right; empty if the user may do it.
    """

    name: str
    label: str
    help: str
    right: str = ""


class Actions:
    """The actions on Clusters, with the rights of the client's user.

    Args:
        management: The client of the management cluster.
        ingress: Where events are sent to; None if there is no local run.
    """

    def __init__(self, management: Client, ingress: Ingress | None = None) -> None:
        self._management, self._ingress = management, ingress
        self._do: Mapping[str, Callable[[Object], object]] = {
            "rollback": self._rollback,
            "undo-rollback": self._undo_rollback,
            "resync": self._resync,
        }

    def offers(self, cluster: Object, addon: Object | None) -> Iterator[Offer]:
        """Yields the actions that make sense for a Cluster now. Raises `ApiError`."""
        if addon is not None:
            namespace = key_of(addon).namespace
            may_patch = is_allowed(self._management, "patch", CLUSTER_ADDON, namespace)
            right = "" if may_patch else f"patch {CLUSTER_ADDON.plural}.{CLUSTER_ADDON.group} in {namespace}"
            if dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION)):
                what = "Applies the addons of the Cluster's class again."
                yield Offer("undo-rollback", "End the rollback", what, right)
            elif len(dig(addon, "status.history") or ()) > 1:
                what = "Applies the former addons, until the rollback is ended or the class changes."
                yield Offer("rollback", "Roll back", what, right)
        if self._ingress is not None and cluster:
            yield Offer("resync", "Look again", "Lets the functions compare the Cluster with its addons once more.")

    def do(self, name: str, key: Key) -> None:
        """Does an action. Raises `Failure` if it is not possible now, and `ApiError`."""
        if name not in self._do:
            raise Failure(f"there is no action {name[:50]}; the actions are {', '.join(self._do)}")
        self._do[name](get_cluster(self._management, key))

    def _rollback(self, cluster: Object) -> None:
        addon = rollback.addon_of_cluster(self._management, cluster)
        rollback.request_rollback(self._management, cluster, addon)

    def _undo_rollback(self, cluster: Object) -> None:
        addon = rollback.addon_of_cluster(self._management, cluster)
        rollback.cancel_rollback(self._management, cluster, addon)

    def _resync(self, cluster: Object) -> None:
        if self._ingress is None:
            raise Failure(
                f"Cluster {key_of(cluster)}: no local run accepts events; `capi-functions resync clusters` sends them "
                "to the functions in a cluster"
            )
        whole = {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind, **cluster}
        event = change_event(whole, "update", source="/console", reference=True, resync=True)
        statuses = replay_to(self._ingress.url, [event], attempts=2, token=self._ingress.token)
        if max(statuses) >= 300:
            raise Failure(
                f"Cluster {key_of(cluster)}: a function of the run answered {max(statuses)}; `capi-functions logs` "
                "has the reason"
            )
