"""One Cluster and its addons. Events about them are delivered as by a sweep: repeatedly, to every subscribed function,
and with all replies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from events.delivery import Deliver
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, Resource, dig
from shared.runtime import Answer
from tests.support.broker import deliver_with_replies
from tests.support.demo_cluster import DemoCluster
from tests.support.until import HANGS, until

FUNCTIONS = ("addon_create", "addon_apply")


@dataclass
class SweptAddons(DemoCluster):
    """The Cluster whose events are delivered until a state is reached; `deliver` calls the functions under test."""

    deliver: Deliver
    answers: list[Answer] = field(default_factory=list)

    # -- actions of users --------------------------------------------------------------------------------------

    def apply_class(self, class_name: str) -> None:
        """Creates a Cluster of this class with its kubeconfig, or upgrades the present one."""
        self.secret()
        self.cluster(class_name)

    def remove(self) -> None:
        """Deletes the Cluster, and its addon as a garbage collector does."""
        for resource, key in ((CLUSTER, self.cluster_key), (CLUSTER_ADDON, self.addon_key)):
            self.client.delete(resource, key)

    # -- deliveries of events ----------------------------------------------------------------------------------

    def sweep(self) -> Answer:
        """Delivers an event for each object; returns the last answer about the addon."""
        answer = Answer(204)
        for resource, key in ((CLUSTER, self.cluster_key), (CLUSTER_ADDON, self.addon_key)):
            answer = self.deliver_change(resource, key) or answer
        return answer

    def deliver_change(self, resource: Resource, key: Key) -> Answer | None:
        """Delivers one event about this object, if it exists."""
        obj = self.client.find(resource, key)
        if obj is None:
            return None
        event = change_event(obj, "update", source="/test", reference=True)
        return [self.send(name, event) for name in FUNCTIONS][-1]

    def send(self, name: str, event: Event) -> Answer:
        """Delivers the event and all replies; returns the last answer of the function. Fails on a 500."""
        last = Answer(204)
        for taker, answer in deliver_with_replies(event, [name], self.deliver):
            self.answers.append(answer)
            last = answer if taker == name else last
        return last

    def until(self, reached: Callable[[], bool], what: str, *, within: float = HANGS) -> None:
        until(reached, what, within=within, pause=0, between=self.sweep, details=self.describe)

    # -- the state afterwards ----------------------------------------------------------------------------------

    def ready(self, class_name: str) -> bool:
        addon = self.client.find(CLUSTER_ADDON, self.addon_key)
        return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == class_name

    def gone(self) -> bool:
        return self.client.find(CLUSTER_ADDON, self.addon_key) is None

    def describe(self) -> str:
        addon = self.client.find(CLUSTER_ADDON, self.addon_key)
        return f"{dig(addon, 'status.conditions')} {self.answers[-3:]}"

    def inventory(self) -> dict[tuple[str, str], Object]:
        """Returns the addon's inventory entries by kind and name."""
        entries = dig(self.addon(), "status.resources", [])
        found = {(entry["kind"], entry["name"]): entry for entry in entries}
        assert len(found) == len(entries), entries
        return found


def owned(client: Client, resource: Resource, namespace: str) -> dict[str, Object]:
    """Returns the objects with our label, by name."""
    found = client.list(resource, namespace, selector=f"{OWNED_LABEL}={OWNED}")
    return {obj["metadata"]["name"]: obj for obj in found}
