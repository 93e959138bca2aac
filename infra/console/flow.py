"""The flow of events: which function answered which event how, and which events no function handled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Protocol, get_args

from infra.operations import deliveries
from infra.operations.deliveries import Delivery, FunctionSummary, Outcome
from infra.operations.deployed_store import stored_letters
from infra.operations.failure import Failure
from infra.operations.log_lines import LogLimits, PodLogs
from shared.dead_letters import DeadLetter, DeadLetters
from shared.kube import ApiError, Client
from shared.settings import STORAGE
from shared.storage import StorageError
from shared.ttl_cache import TTLCache

OUTCOMES: Sequence[Outcome] = get_args(Outcome)
_MOST = 100
"""Deliveries on a page, and dead letters."""
_MOST_FAILURES = 20
_MOST_PROBLEMS = 5
_KEPT_FOR = 5.0
"""Seconds for which read dead letters and logs of pods are shown."""

_POD_LIMITS = LogLimits(lines=300, age=3600, bytes=256 << 10)
_MOST_OF_PODS = 1_000
"""Deliveries of all pods together."""
_PODS_WITHIN = 20.0
"""Seconds in which the logs of all pods must be read."""
_AGAIN = 15
"""Seconds after which an open page reads the logs of pods again."""


@dataclass(frozen=True)
class Log:
    """The newest deliveries, the newest first, and sentences about logs that cannot be read."""

    deliveries: Sequence[Delivery]
    problems: Sequence[str] = ()


class LogSource(Protocol):
    """Where the log of functions is."""

    def version(self) -> str:
        """Returns, without a wait, a text that is new when the log may be new."""

    def read(self) -> Log:
        """Reads the newest part of the log."""


@dataclass(frozen=True)
class RunLog:
    """The log of a local run."""

    file: Path

    def version(self) -> str:
        """Returns the size of the log."""
        try:
            return str(self.file.stat().st_size)
        except OSError:
            return ""

    def read(self) -> Log:
        """Reads the end of the log."""
        return Log(deliveries.read(self.file))


class PodLog:
    """The logs of the functions' pods, read with the rights of a client's user."""

    def __init__(self, client: Client, namespace: str) -> None:
        """`namespace` is the namespace of the pods."""
        self._client, self._namespace = client, namespace
        self._cache, self._lock = TTLCache(), Lock()

    def version(self) -> str:
        """Returns a text that is new each `_AGAIN` seconds, because the API server does not report new lines."""
        return str(int(time.monotonic()) // _AGAIN)

    def read(self) -> Log:
        """Reads the lines of the last hour, or returns what was read just now."""
        with self._lock:
            return self._cache.get("log", _KEPT_FOR, self._read)

    def _read(self) -> Log:
        logs = PodLogs(self._client.within(_PODS_WITHIN), self._namespace, _POD_LIMITS)
        try:
            found = deliveries.newest(logs.stamped(), _MOST_OF_PODS)
        except Failure as error:
            return Log((), (f"{error}.",))
        except ApiError as error:
            return Log((), (_problem(error, f"list pods in {self._namespace}"),))
        right = f"get pods/log in {self._namespace}"
        problems = Counter(_problem(error, right) for error in logs.unread.values())
        return Log(found, [*problems][:_MOST_PROBLEMS])


@dataclass(frozen=True)
class FlowPage:
    """One page of the flow.

    Attributes:
        functions: A summary of each function in the log.
        failures: The newest failures.
        shown: The newest deliveries that match the search.
        matching: The number of matching deliveries in the log.
        log_problems: Why logs cannot be read.
        letters: The newest dead letters, the newest first.
        letter_problem: Why the dead letters cannot be read.
    """

    functions: Sequence[FunctionSummary]
    failures: Sequence[Delivery]
    shown: Sequence[Delivery]
    matching: int
    log_problems: Sequence[str]
    letters: Sequence[DeadLetter]
    letter_problem: str


class Flow:
    """The log of functions and their dead letters.

    Args:
        log: The log.
        letters: Opens the dead letters; may raise `Failure`, `ApiError` or `StorageError`.
    """

    def __init__(self, log: LogSource, letters: Callable[[], DeadLetters]) -> None:
        self._log, self._open_letters = log, letters
        self._cache, self._lock = TTLCache(), Lock()
        self.version = log.version

    @classmethod
    def of_cluster(cls, client: Client, namespace: str) -> Flow:
        """Returns the flow in a cluster, with the rights of the client's user; `namespace` is the functions'."""
        return cls(PodLog(client, namespace), partial(letters_in_cluster, client, namespace))

    def page(self, query: Mapping[str, str]) -> FlowPage:
        """Returns the page for a query: `q` are words, `outcome` is one of `OUTCOMES`."""
        log = self._log.read()
        words, outcome = query.get("q", "")[:200].lower().split(), query.get("outcome", "")
        matching = [
            one
            for one in log.deliveries
            if outcome in ("", one.outcome)
            and all(word in f"{one.function} {one.event} {one.detail}".lower() for word in words)
        ]
        return FlowPage(
            deliveries.summarize(log.deliveries),
            [one for one in log.deliveries if one.status >= 400][:_MOST_FAILURES],
            matching[:_MOST],
            len(matching),
            log.problems,
            *self._letters(),
        )

    def _letters(self) -> tuple[Sequence[DeadLetter], str]:
        with self._lock:  # a list reads each letter
            return self._cache.get("letters", _KEPT_FOR, self._read_letters)

    def _read_letters(self) -> tuple[Sequence[DeadLetter], str]:
        try:
            return self._open_letters().list()[:_MOST], ""
        except (Failure, ApiError, StorageError) as error:
            return (), str(error)


def letters_in_cluster(client: Client, namespace: str) -> DeadLetters:
    """Opens the dead letters of functions in a namespace. Raises `Failure`."""
    try:
        return stored_letters(client.within(_PODS_WITHIN), namespace)
    except ApiError as error:
        raise Failure(_problem(error, f"get configmaps and secrets {STORAGE.name} in {namespace}")) from error


def _problem(error: ApiError, right: str) -> str:
    """Returns a sentence about an error of a request that needs a right."""
    return f"A right is missing: {right}." if error.status == 403 else str(error)
