"""A LabelSelector in the form that lists are asked for with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.components import label_selector


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
    try:
        return label_selector.matches(label_selector.parse(as_text(selector)), labels)
    except ValueError:
        return False  # no server takes it either
