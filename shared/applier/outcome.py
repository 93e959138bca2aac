"""The outcome of a sync: of each object, and as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.api.conditions import abridged, counted

from ..kube import ApiError, Object, Unavailable
from .apply import ApplyRejected, FieldConflict
from .inventory import KEPT, InventoryEntry

NOT_TRIED = "not tried, because the API server stopped answering"
"""The error of the objects that the rollout skips because the API server stopped answering."""


@dataclass(frozen=True)
class Drift:
    """A live object that differs from the applied object at these paths; without paths the live object is missing."""

    entry: InventoryEntry
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.entry} ({', '.join(self.fields[:5]) if self.fields else 'missing'})"


@dataclass(frozen=True)
class StepResult:
    """The result of one step; `crd` is the live object if a CRD was applied, and a `failed` hook never completes."""

    entry: InventoryEntry
    written: bool = False
    conflicts: tuple[FieldConflict, ...] = ()
    drift: Drift | None = None
    crd: Object | None = None
    failed: bool = False


@dataclass(frozen=True)
class SyncOutcome:
    """The inventory after a sync, and what the sync did."""

    entries: tuple[InventoryEntry, ...] = ()
    written: Sequence[InventoryEntry] = ()
    pruned: tuple[InventoryEntry, ...] = ()
    kept: tuple[InventoryEntry, ...] = ()
    """Objects that were not pruned: no longer ours, or annotated to be kept."""
    conflicts: Sequence[tuple[InventoryEntry, FieldConflict]] = ()
    drift: Sequence[Drift] = ()
    failed_hooks: tuple[InventoryEntry, ...] = ()
    """Hooks whose Job or Pod has failed for good."""
    untried: int = 0
    """The number of objects of later waves, which the sync did not come to."""

    @classmethod
    def of(cls, steps: Iterable[StepResult], others: Iterable[InventoryEntry]) -> SyncOutcome:
        """Collects the results of steps; `others` are the entries of the inventory without a step."""
        steps = list(steps)
        return cls(
            entries=(*(done.entry for done in steps), *others),
            written=[done.entry for done in steps if done.written],
            conflicts=[(done.entry, held) for done in steps for held in done.conflicts],
            drift=[done.drift for done in steps if done.drift],
            failed_hooks=tuple(done.entry for done in steps if done.failed),
        )

    @property
    def failures(self) -> list[InventoryEntry]:
        """The entries of objects that could not be applied or pruned, the causes first."""
        failed = [entry for entry in self.entries if entry.error and entry.status != KEPT]
        return sorted(failed, key=lambda entry: entry.error == NOT_TRIED)

    @property
    def summary(self) -> str:
        """How many objects were written and pruned, for messages."""
        return f"{counted(len(self.written), 'object')} written, {len(self.pruned)} pruned"

    @property
    def listed_drift(self) -> list[str]:
        """The drift as it is written to a status."""
        return [str(drift) for drift in self.drift[:20]]

    @property
    def adopted(self) -> list[str]:
        """Objects that existed before without an owner's mark, each with the manager that had written it."""
        return [f"{entry} ({held.manager})" for entry, held in self.conflicts if not held.field]

    @property
    def not_ready(self) -> list[InventoryEntry]:
        """The entries of objects that are applied and not ready."""
        return [entry for entry in self.entries if entry.waiting]


class SyncIncomplete(Exception):
    """A sync that stopped before its end: at failed objects, or at a wave that has to complete first.

    Attributes:
        outcome: The inventory and what was done so far.
        unavailable: Whether the API server stopped answering.
    """

    def __init__(self, outcome: SyncOutcome, *, unavailable: bool = False) -> None:
        self.outcome = outcome
        self.unavailable = unavailable
        failures = outcome.failures
        if failures:
            failed = [entry for entry in failures if entry.error != NOT_TRIED] or failures
            shown = abridged([f"{entry}: {entry.error}" for entry in failed], 3)
            untried = outcome.untried + len(failures) - len(failed)
            later = f", {untried} not tried" if untried else ""
            super().__init__(f"{len(failed)} of {len(outcome.entries)} objects failed{later}: {shown}")
        else:
            super().__init__("waiting for " + format_waiting(outcome.not_ready))

    @property
    def waiting(self) -> bool:
        """Whether nothing failed, and the sync waits for a wave to complete."""
        return not self.outcome.failures


def format_waiting(entries: Sequence[InventoryEntry]) -> str:
    """Returns one line about objects that are not ready; names the first three."""
    return abridged([f"{entry} {entry.waiting}" for entry in entries], 3)


def format_error(entry: InventoryEntry, error: Exception) -> str:
    """Returns the error's message; for a Secret without the server's text, which can quote its values."""
    return error_text(error, is_secret=entry.kind == "Secret")


def error_text(error: Exception, *, is_secret: bool) -> str:
    """Returns the error's message; without the server's text, which can quote values, if the values are secret."""
    our_words = isinstance(error, ApplyRejected) and not error.body
    if is_secret and isinstance(error, ApiError) and error.status and not our_words:
        return (
            f"rejected with HTTP {error.status} {error.reason}; the message is redacted, because it can quote the "
            "Secret"
        )
    return error.detail if isinstance(error, ApiError) else str(error)


def is_server_failure(error: Exception) -> bool:
    """Returns whether the server fails as a whole. A 500 is about one object, such as a field of the wrong type."""
    return isinstance(error, Unavailable) and error.status != 500
