"""What came of a rollout: object by object, and as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..kube import ApiError, Object, Unavailable
from .apply import ApplyRejected, FieldConflict
from .inventory import KEPT, InventoryEntry


@dataclass(frozen=True)
class Drift:
    """An object that was not as it had been applied: the paths that differed, or `missing`."""

    entry: InventoryEntry
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.entry} ({', '.join(self.fields[:5]) if self.fields else 'missing'})"


@dataclass(frozen=True)
class StepResult:
    """What came of one step. `crd` is the object as the server has it now, if it is a CRD that was applied."""

    entry: InventoryEntry
    written: bool = False
    conflicts: tuple[FieldConflict, ...] = ()
    drift: Drift | None = None
    crd: Object | None = None


@dataclass(frozen=True)
class RolloutOutcome:
    """The inventory after a rollout, and what happened."""

    entries: tuple[InventoryEntry, ...] = ()
    written: Sequence[InventoryEntry] = ()
    pruned: tuple[InventoryEntry, ...] = ()
    kept: tuple[InventoryEntry, ...] = ()
    """Left in the cluster on purpose: not ours any more, or marked to be kept."""
    conflicts: Sequence[tuple[InventoryEntry, FieldConflict]] = ()
    drift: Sequence[Drift] = ()

    @classmethod
    def of(cls, steps: Iterable[StepResult], others: Iterable[InventoryEntry]) -> RolloutOutcome:
        """`others` are the rest of the inventory, which no step was about."""
        steps = list(steps)
        return cls(
            entries=(*(done.entry for done in steps), *others),
            written=[done.entry for done in steps if done.written],
            conflicts=[(done.entry, held) for done in steps for held in done.conflicts],
            drift=[done.drift for done in steps if done.drift],
        )

    @property
    def failures(self) -> list[InventoryEntry]:
        return [entry for entry in self.entries if entry.error and entry.status != KEPT]

    @property
    def listed_drift(self) -> list[str]:
        """As a status lists it."""
        return [str(drift) for drift in self.drift[:20]]

    @property
    def adopted(self) -> list[str]:
        """Objects that were there before and nobody's by their marks, with who wrote them."""
        return [f"{entry} ({held.manager})" for entry, held in self.conflicts if not held.field]

    @property
    def not_ready(self) -> list[InventoryEntry]:
        return [entry for entry in self.entries if entry.waiting]


class RolloutIncomplete(Exception):
    """A rollout that did not get through; its outcome says how far it came.

    `unavailable`: the server stopped answering. Without failures it waits for a wave to be over.
    """

    def __init__(self, outcome: RolloutOutcome, *, unavailable: bool = False) -> None:
        self.outcome = outcome
        self.unavailable = unavailable
        failures = outcome.failures
        if failures:
            shown = "; ".join(f"{entry}: {entry.error}" for entry in failures[:3])
            more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
            super().__init__(f"{len(failures)} of {len(outcome.entries)} objects failed: {shown}{more}")
        else:
            super().__init__("waiting for " + format_waiting(outcome.not_ready))

    @property
    def waiting(self) -> bool:
        return not self.outcome.failures


def format_waiting(entries: Sequence[InventoryEntry]) -> str:
    """What is not ready, in one line."""
    more = f"; and {len(entries) - 3} more" if len(entries) > 3 else ""
    return "; ".join(f"{entry} {entry.waiting}" for entry in entries[:3]) + more


def format_error(entry: InventoryEntry, error: Exception) -> str:
    """The failure in the server's words; not of a Secret, since they can quote its values."""
    our_words = isinstance(error, ApplyRejected) and not error.body
    if entry.kind == "Secret" and isinstance(error, ApiError) and error.status and not our_words:
        return f"refused with HTTP {error.status} {error.reason}; its words are withheld, they can quote the Secret"
    return error.detail if isinstance(error, ApiError) else str(error)


def is_server_failure(error: Exception) -> bool:
    """Whether the server fails, whatever it is asked; a 500 is about one object (a field of the wrong type, say)."""
    return isinstance(error, Unavailable) and error.status != 500
