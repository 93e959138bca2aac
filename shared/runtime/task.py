"""Runs a task: a function without a primary object, such as the sweep. An event in, an answer out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..clients import Clients
from ..event import Event
from ..kube import ApiError
from ..storage import StorageError
from ..triggers import Triggers
from .answer import Answer, done, failed


@dataclass(frozen=True)
class Task:
    """The parts of a function that reconciles no object. It passes on events, collects garbage, or answers a request.

    Attributes:
        triggers: The declaration of the events. If it declares none, the task takes every event.
        run: `run(clients, event)` does the work. It may raise `ApiError` and `StorageError`.
    """

    triggers: Triggers
    run: Callable[[Clients, Event], Answer]

    def handle(self, clients: Clients, event: Event) -> Answer:
        """Runs the task for an event that is for it. Raises only on a bug: API errors become answers of 503."""
        takes_all = not self.triggers.watches and not self.triggers.subscriptions
        if not takes_all and self.triggers.primary_ref(event) is None:
            return done("the event is not for this function")
        try:
            return self.run(clients, event)
        except (ApiError, StorageError) as error:
            return failed(error)
