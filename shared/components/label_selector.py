"""Label selectors as kubectl takes them: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
LONGEST: Final = 63
"""Characters of a label's value."""

# Possessive wherever blanks are: without it a line of blanks and commas takes exponential time. Not for groups, which
# Python before 3.11.5 gets wrong.
_REQUIREMENT: Final = re.compile(
    rf"""\s*+ (?:
        (?P<absent>!) \s*+ (?P<unwanted>{_KEY})
      | (?P<key>{_KEY}) (?:
            \s*+ (?P<compared>==|=|!=|<|>) \s*+ (?P<value>{_VALUE})
          | \s++ (?P<chosen>in|notin) \s*+ \( (?P<values>[^()]*+) \)
        )?
    ) \s*+ (?P<end>,|$)""",
    re.VERBOSE,
)


class Requirement(NamedTuple):
    key: str
    operator: str
    """`in`, `notin`, `<`, `>`, `present` or `absent`."""
    values: tuple[str, ...] = ()


def parse(text: str) -> tuple[Requirement, ...]:
    """All of them must hold. Raises ValueError."""
    return tuple(_parsed(text)) if text.strip() else ()


def _parsed(text: str) -> Iterator[Requirement]:
    position, end = 0, ","
    while end:
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise ValueError(f"no label selector such as a=b,c in (d,e),!f from {text[position : position + 50]!r} on")
        yield _requirement(found)
        position, end = found.end(), found["end"]


def _requirement(found: re.Match[str]) -> Requirement:
    if found["absent"]:
        return Requirement(found["unwanted"], "absent")
    if found["chosen"]:
        values = tuple(value.strip() for value in found["values"].split(","))
        if wrong := [value for value in values if not re.fullmatch(_VALUE, value)]:
            raise ValueError(f"no label selector: {wrong[0][:50]!r} is no value of a label")
        return Requirement(found["key"], found["chosen"], values)
    match found["compared"]:
        case None:
            return Requirement(found["key"], "present")
        case "<" | ">" as operator:
            if not _is_number(found["value"]):
                raise ValueError(f"{found['key']}{operator} needs a number")
            return Requirement(found["key"], operator, (found["value"],))
        case operator:
            return Requirement(found["key"], "notin" if operator == "!=" else "in", (found["value"],))


def is_value(text: str) -> bool:
    """Whether a label can have it."""
    return len(text) <= LONGEST and re.fullmatch(_VALUE, text) is not None


def matches(requirements: tuple[Requirement, ...], labels: Mapping[str, Any]) -> bool:
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def _holds(requirement: Requirement, label: Any) -> bool:
    match requirement.operator:
        case "in":
            return label in requirement.values
        case "notin":
            return label not in requirement.values
        case "present":
            return label is not None
        case "absent":
            return label is None
    if not _is_number(label):
        return False
    number = int(requirement.values[0])
    return int(label) < number if requirement.operator == "<" else int(label) > number


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isdecimal() and len(text) <= LONGEST
