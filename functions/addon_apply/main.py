from shared.clients import Clients
from shared.event import Event
from shared.runtime import Answer
from shared.runtime.http import target


def handle(clients: Clients, event: Event) -> Answer:
    # Loaded by the worker: what the chart library starts when it is loaded does not survive the fork of a server.
    from functions.addon_apply.function import handle

    return handle(clients, event)


addon_apply = target("addon_apply", handle)
