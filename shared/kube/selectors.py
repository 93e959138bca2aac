"""Label selectors: their text form, `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`, and LabelSelector objects.

Requests to list take the text form. It also has `<` and `>`, which LabelSelector objects do not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
MAX_VALUE_LENGTH: Final = 63
"""Characters that the value of a label may have."""

MAX_LENGTH: Final = 1 << 16
"""Characters of the text form of a LabelSelector object. A thousand names of objects have a third."""

_HAS_VALUES: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""The operators of LabelSelector objects, and whether they have values."""

# Quantifiers of blanks are possessive, because otherwise a line of blanks and commas takes exponential time.
# Quantifiers of groups are not, because Python before 3.11.5 gets possessive groups wrong.
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
    """One requirement of a selector; an object is selected if it meets all of them."""

    key: str
    operator: str
    """`in`, `notin`, `<`, `>`, `present` or `absent`."""
    values: tuple[str, ...] = ()


def parse(text: str) -> tuple[Requirement, ...]:
    """Parses the text form; empty text has no requirements and selects everything.

    Raises:
        ValueError: The text is not a label selector; the message cites the place.
    """
    return tuple(_parsed(text)) if text.strip() else ()


def _parsed(text: str) -> Iterator[Requirement]:
    position, end = 0, ","
    while end:
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise ValueError(
                f"invalid label selector at {text[position : position + 50]!r}; a valid one is a=b,c in (d,e),!f"
            )
        yield _requirement(found)
        position, end = found.end(), found["end"]


def _requirement(found: re.Match[str]) -> Requirement:
    if found["absent"]:
        return Requirement(found["unwanted"], "absent")
    if found["chosen"]:
        values = tuple(value.strip() for value in found["values"].split(","))
        if wrong := [value for value in values if not re.fullmatch(_VALUE, value)]:
            raise ValueError(f"invalid label selector: {wrong[0][:50]!r} is not a valid label value")
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


def is_label_value(text: str) -> bool:
    """Returns whether the API server accepts the text as the value of a label."""
    return len(text) <= MAX_VALUE_LENGTH and re.fullmatch(_VALUE, text) is not None


def matches(requirements: tuple[Requirement, ...], labels: Mapping[str, Any]) -> bool:
    """Returns whether the labels meet all requirements."""
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def as_text(selector: Mapping[str, Any]) -> str:
    """Returns the text form of a LabelSelector object; empty for a selector that selects everything."""
    parts = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, values = expression.get("key", ""), ",".join(expression.get("values") or [])
        match expression.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(parts)


def validated(selector: Mapping[str, Any]) -> str:
    """Returns the text form of a LabelSelector object, which the API server accepts.

    Raises:
        ValueError: The API server rejects the selector, or it is too long; the message cites the requirement.
    """
    _parsed_object(selector)
    return as_text(selector)


def _parsed_object(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Returns the requirements of a LabelSelector object. Raises `ValueError` as `validated` does."""
    for one in selector.get("matchExpressions") or []:
        key, operator, values = one.get("key", ""), one.get("operator", ""), one.get("values") or []
        if operator not in _HAS_VALUES:
            raise ValueError(f"{operator[:50]!r} is not a label selector operator: use {', '.join(_HAS_VALUES)}")
        if bool(values) != _HAS_VALUES[operator]:
            needed = "needs values" if _HAS_VALUES[operator] else "takes no values"
            raise ValueError(f"invalid label selector for the label {key[:100]!r}: {operator} {needed}")
    text = as_text(selector)
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the label selector has more than {MAX_LENGTH} characters: use a label of its own")
    return parse(text)


def matcher(selector: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Returns whether a LabelSelector object selects labels, as a function that has parsed the selector.

    An invalid selector selects nothing.
    """
    try:
        requirements = _parsed_object(selector)
    except ValueError:
        return lambda _labels: False
    return lambda labels: matches(requirements, labels)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Returns whether a LabelSelector object selects an object with these labels; an invalid one selects nothing."""
    return matcher(selector)(labels)


def _holds(requirement: Requirement, label: Any) -> bool:
    """Returns whether the value of a label (None: the label is absent) meets the requirement."""
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
    return isinstance(text, str) and text.isdecimal() and len(text) <= MAX_VALUE_LENGTH
