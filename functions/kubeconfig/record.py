"""The message of the condition about a kubeconfig, for users and for the next decision.

A Cluster's status has no other place for it, because its CRD may come from Cluster API. With this record the Cluster
alone shows when the next renewal is due, and which server the kubeconfig is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.api.cluster import KUBECONFIG_AVAILABLE
from shared.api.conditions import get_condition, rfc3339
from shared.api.core import MANAGED_BY_CORE
from shared.kube import dig

from .existing import Existing

GENERATED = "Generated"
NOT_RENEWED = "NotRenewed"
USER_PROVIDED = "UserProvided"
EXPIRES = "Expires"
EXPIRED = "Expired"
INVALID = "InvalidKubeconfig"

_REASONS = (GENERATED, NOT_RENEWED, MANAGED_BY_CORE, USER_PROVIDED, EXPIRES, EXPIRED)
_OBSTACLE = "; not renewed: "
_TEXT = re.compile(r"Valid (?:until (?P<expires>\S+Z)|without limit)(?: for (?P<server>https://[^\s;]+))?")


def describe(existing: Existing, obstacle: str = "") -> str:
    """Returns the validity of the kubeconfig, its server if it was generated, and why it is not renewed."""
    if existing.fault:
        return existing.fault + (f"{_OBSTACLE}{obstacle}" if obstacle else "")
    text = f"Valid until {rfc3339(existing.expires)}" if existing.expires else "Valid without limit"
    server = f" for {existing.server}" if existing.generated else ""
    return text + server + (f"{_OBSTACLE}{obstacle}" if obstacle else "")


def recorded(cluster: Mapping[str, Any]) -> tuple[Existing, str] | None:
    """Returns the kubeconfig and the obstacle to its renewal as the condition records them; None without a record."""
    condition = get_condition(dig(cluster, "status.conditions"), KUBECONFIG_AVAILABLE) or {}
    reason, message = condition.get("reason"), str(condition.get("message") or "")
    if reason == INVALID:
        fault, is_generated, obstacle = message.partition(_OBSTACLE)
        return Existing(bool(is_generated), fault=fault), obstacle
    found = _TEXT.match(message)
    if found is None or reason not in _REASONS:
        return None
    try:
        expires = datetime.fromisoformat(found["expires"]).astimezone(UTC) if found["expires"] else None
    except ValueError:
        return None
    obstacle = message.partition(_OBSTACLE)[2]
    return Existing(found["server"] is not None, found["server"] or "", expires), obstacle
