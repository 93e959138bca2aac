"""Reports in a provider's status that the API server rejects a request, without secret values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from shared import bounded_yaml
from shared.kube import ApiError, Object
from shared.runtime import Decision

from .inputs import Inputs
from .status import ProviderCondition, ProviderStatusBuilder

RETRY = 60.0
"""Seconds until a rejected request is repeated, because its cause, a webhook or a role, may change without an event."""

_PUBLIC = ("images", "ca.crt")
"""Keys of the Secret whose values are not secret: messages about image overrides cite them."""


class _HasInputs(Protocol):
    @property
    def inputs(self) -> Inputs: ...


def report_rejection(
    condition: ProviderCondition, reason: str, status: str = "False"
) -> Callable[[Object, ApiError, datetime], Decision]:
    """Returns a function that reports a rejected request in a condition, for use as `Function.on_rejected`.

    Args:
        condition: Type of the condition.
        reason: Its reason.
        status: Its status: False, or True for a condition of negative polarity.
    """

    def report(provider: Object, error: ApiError, now: datetime) -> Decision:
        """Returns the decision that sets the condition and retries later."""
        builder = ProviderStatusBuilder(provider, now)
        builder.set(condition, status, reason, f"the API server rejects a request: {error}", event_type="Warning")
        return builder.decision(requeue_after=RETRY, message=str(error))

    return report


def sensitive_values(observed: _HasInputs) -> frozenset[str]:
    """Returns the values of the config Secret in all forms in which a parser or an API server may cite them.

    Args:
        observed: What a function has observed; its `inputs` have the Secret's values.
    """
    values = observed.inputs.variables
    return frozenset(form for name, value in values.items() if name not in _PUBLIC for form in _forms(value))


def _forms(value: str) -> Iterator[str]:
    yield value
    yield from (line.strip() for line in value.splitlines())
    if value[:1].isdigit():  # unquoted in YAML it may be a number in another notation, such as octal
        try:
            yield str(bounded_yaml.load(value))
        except bounded_yaml.YAMLError:
            return
