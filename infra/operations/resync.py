"""Sends objects as resyncs, as the function `sweep` does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from events.replay import replay_to
from shared.event import Event, change_event
from shared.kube import Object
from shared.runtime import Answer

from .text import plain

_SOURCE = "/resync"


def send(url: str, objects: Iterable[Object], token: Path | None = None) -> list[tuple[str, Answer]]:
    """Sends a resync of each object, which names the object without its content.

    Args:
        url: The receiver, which delivers the event to functions: a Broker, or the ingress of a forwarder.
        objects: The objects.
        token: The file with the token of the receiver in a local run.

    Returns:
        Kind and key of each object, and the last answer of the receiver.
    """
    sent: list[tuple[str, Answer]] = []

    def keep(event: Event, answer: Answer) -> None:
        sent.append((plain(f"{event.kind} {event.key}", most=300), answer))

    events = [change_event(obj, "update", source=_SOURCE, reference=True, resync=True) for obj in objects]
    replay_to(url, events, attempts=2, token=token, progress=keep)
    return sent
