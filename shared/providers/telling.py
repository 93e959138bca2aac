"""What a provider's status says of requests that the API server refuses, and what it never says: secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from shared import bounded_yaml
from shared.kube import ApiError, Object
from shared.runtime import Decision

from .inputs import Inputs
from .status import ProviderStatusBuilder

RETRY = 60.0
"""Seconds until a request that was refused is sent again: what refuses it (a webhook, a role) may change unheard."""

_PUBLIC = ("images", "ca.crt")
"""Keys of the Secret that hold no secret: messages about image overrides cite them."""


class _HasInputs(Protocol):
    @property
    def inputs(self) -> Inputs: ...


def refusal(condition: str, reason: str, status: str = "False") -> Callable[[Object, ApiError, datetime], Decision]:
    """Has the condition tell what was refused: one for each phase."""

    def refused(provider: Object, error: ApiError, now: datetime) -> Decision:
        builder = ProviderStatusBuilder(provider, now)
        builder.set(condition, status, reason, f"the API server refuses it: {error}", event_type="Warning")
        return Decision(
            status=builder.status(),
            kubernetes_events=tuple(builder.kubernetes_events),
            requeue_after=RETRY,
            message=str(error),
        )

    return refused


def secrets(observed: _HasInputs) -> frozenset[str]:
    """The values of the config Secret, in the forms in which a parser or an API server may cite them."""
    values = observed.inputs.variables
    return frozenset(form for name, value in values.items() if name not in _PUBLIC for form in _forms(value))


def _forms(value: str) -> Iterator[str]:
    yield value
    yield from (line.strip() for line in value.splitlines())
    if value[:1].isdigit():  # where nothing quotes it, it may be a number, and no decimal one
        try:
            yield str(bounded_yaml.load(value))
        except bounded_yaml.YAMLError:
            return
