"""The reasons in conditions that are not as wanted: the meaning and the remedy of each.

docs/reference/reasons.md is generated from them. A test finds each reason in the code.
"""

from . import addons, charts, clusters, providers, stacks
from .reason import Reason as Reason

REASONS = (*addons.REASONS, *clusters.REASONS, *stacks.REASONS, *charts.REASONS, *providers.REASONS)


def find(name: str) -> list[Reason]:
    """Returns the entries of a reason, ignoring case; none for an unknown reason."""
    return [reason for reason in REASONS if name.casefold() in map(str.casefold, reason.names)]


def find_for(kind: str, name: str, condition: str = "") -> Reason | None:
    """Returns the entry of a reason that a condition of an object has; None for an unknown reason.

    Args:
        kind: The kind of the object.
        name: The reason.
        condition: The type of the condition, to choose between several entries. A summary has the reason of another.
    """
    found = [reason for reason in REASONS if name in reason.names and reason.is_of(kind)]
    return next((reason for reason in found if reason.condition == condition), next(iter(found), None))
