"""A LabelSelector in the form that lists are asked for with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_text(selector: Mapping[str, Any]) -> str:
    """`a=b,c in (d,e),!f`; empty for a selector that selects everything."""
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


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels is selected."""
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or [])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
