"""Watches the conditions of the demo's ClusterAddon."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER_ADDON
from shared.kube import ApiError, Client, dig


class ConditionWatcher:
    """Watches the ClusterAddon in a thread; a context manager.

    `seen` collects reason and message of each condition that was False.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._close: Callable[[], None] = lambda: None
        self._on_applying: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: set[str] = set()

    def on_applying(self, action: Callable[[], None]) -> None:
        """Sets an action that is called once: when the first objects are being applied."""
        self._on_applying = action

    def __enter__(self) -> ConditionWatcher:
        page = next(self._client.pages(CLUSTER_ADDON, "default"))
        self._version = page["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with suppress(OSError):  # the watch may have ended already
            self._close()
        self._thread.join(5)

    def _opened(self, close: Callable[[], None]) -> None:
        self._close = close

    def _run(self) -> None:
        with suppress(ApiError):  # the watch was closed
            self._watch()

    def _watch(self) -> None:
        for event in self._client.watch(
            CLUSTER_ADDON, "default", version=self._version, seconds=120, on_open=self._opened
        ):
            conditions = dig(event, "object.status.conditions", [])
            for condition in conditions:
                if condition.get("status") == "False":
                    self.seen.add(f"{condition.get('reason')}: {condition.get('message')}")
            applying = get_condition(conditions, "HelmChartApplied") or {}
            if self._on_applying and applying.get("reason") == "ObjectsApplyingOngoing":
                action, self._on_applying = self._on_applying, None
                action()
