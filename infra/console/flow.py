"""The flow of events: which function answered which event how, and which events no function handled."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from infra.operations import deliveries
from infra.operations.deliveries import Delivery, FunctionSummary, Outcome
from shared.dead_letters import DeadLetter, DeadLetters
from shared.storage import StorageError

OUTCOMES: Sequence[Outcome] = get_args(Outcome)
_MOST = 100
"""Deliveries on a page."""
_MOST_FAILURES = 20
_LETTERS_FOR = 5.0
"""Seconds for which listed dead letters are shown: a list reads each of them."""


@dataclass(frozen=True)
class FlowPage:
    """One page of the flow.

    Attributes:
        functions: A summary of each function in the log.
        failures: The newest failures.
        shown: The newest deliveries that match the search.
        matching: The number of matching deliveries in the log.
        letters: The dead letters, the newest first.
        problem: Why the dead letters cannot be read.
    """

    functions: Sequence[FunctionSummary]
    failures: Sequence[Delivery]
    shown: Sequence[Delivery]
    matching: int
    letters: Sequence[DeadLetter]
    problem: str


class Flow:
    """The log of a local run, and the dead letters in its object store or in the one of the environment.

    Args:
        log: The log of the functions; None if none is on this machine.
        letters: The dead letters; None without an object store.
    """

    def __init__(self, log: Path | None = None, letters: DeadLetters | None = None) -> None:
        self.log, self._letters = log, letters
        self._lock = threading.Lock()
        self._listed: Sequence[DeadLetter] = ()
        self._problem = ""
        self._until = 0.0

    @property
    def stores_letters(self) -> bool:
        """Whether there is an object store for dead letters."""
        return self._letters is not None

    def version(self) -> str:
        """Returns a text that is new after each delivery."""
        try:
            return str(self.log.stat().st_size) if self.log else ""
        except OSError:
            return ""

    def page(self, query: Mapping[str, str]) -> FlowPage:
        """Returns the page for a query: `q` are words, `outcome` is one of `OUTCOMES`."""
        found = deliveries.read(self.log) if self.log else []
        words, outcome = query.get("q", "")[:200].lower().split(), query.get("outcome", "")
        matching = [
            one
            for one in found
            if outcome in ("", one.outcome)
            and all(word in f"{one.function} {one.event} {one.detail}".lower() for word in words)
        ]
        failures = [one for one in found if one.status >= 400][:_MOST_FAILURES]
        letters, problem = self._dead_letters()
        return FlowPage(deliveries.summarize(found), failures, matching[:_MOST], len(matching), letters, problem)

    def _dead_letters(self) -> tuple[Sequence[DeadLetter], str]:
        with self._lock:
            if self._letters is not None and time.monotonic() > self._until:
                try:
                    self._listed, self._problem = self._letters.list(), ""
                except StorageError as error:
                    self._listed, self._problem = (), str(error)
                self._until = time.monotonic() + _LETTERS_FOR
            return self._listed, self._problem
