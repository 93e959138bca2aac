"""The function `cluster_stack`: keeps the ClusterStackReleases that a ClusterStack should have."""

from __future__ import annotations

from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Object
from shared.runtime import Answer, Function, done

from .decide import decide, report
from .observe import observe
from .triggers import TRIGGERS, stack_of

FUNCTION = Function(TRIGGERS, observe, decide, report=report)


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a ClusterStack, one of its releases, or a Cluster that stopped using a release."""
    if not event.change or event.kind != CLUSTER.kind:
        return FUNCTION.handle(clients, event)
    try:
        stack = _stack_of_class(clients, event)
    except ApiError as error:
        return Answer(503, str(error), retry_after=2.0)
    if stack is None:
        return done("no ClusterStack owns the release of this Cluster's class")
    answer = FUNCTION.handle(clients, change_event(stack, "update", source="/cluster_stack", reference=True))
    # No requeue for the event of a Cluster: the requeue of the stack's own events is enough.
    return answer if answer.status >= 300 else done(answer.message)


def _stack_of_class(clients: Clients, event: Event) -> Object | None:
    """Returns a reference to the ClusterStack whose release the Cluster of the event uses; None if there is none."""
    key = TRIGGERS.key(event)
    release = clients.management.find(CLUSTER_STACK_RELEASE, key) if key else None
    stack = stack_of(release) if release else None
    if stack is None:
        return None
    return {
        "apiVersion": CLUSTER_STACK.api_version,
        "kind": CLUSTER_STACK.kind,
        "metadata": stack._asdict(),
    }
