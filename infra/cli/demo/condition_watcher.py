"""Watches the conditions of the demo's ClusterAddon."""

from __future__ import annotations

from collections.abc import Callable

from infra.operations.addon_watcher import AddonWatcher
from shared.api.conditions import get_condition
from shared.kube import Client, Object, dig


class ConditionWatcher(AddonWatcher):
    """Collects in `seen` reason and message of each condition that was False.

    `on_applying` is called once: when the first objects are being applied.
    """

    def __init__(self, client: Client, on_applying: Callable[[], None]) -> None:
        super().__init__(client, "default", self._keep)
        self._on_applying: Callable[[], None] | None = on_applying
        self.seen: set[str] = set()

    def _keep(self, addon: Object) -> None:
        conditions = dig(addon, "status.conditions", [])
        for condition in conditions:
            if condition.get("status") == "False":
                self.seen.add(f"{condition.get('reason')}: {condition.get('message')}")
        applying = get_condition(conditions, "HelmChartApplied") or {}
        if self._on_applying and applying.get("reason") == "ObjectsApplyingOngoing":
            action, self._on_applying = self._on_applying, None
            action()
