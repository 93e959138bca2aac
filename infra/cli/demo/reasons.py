"""Watches the conditions of the demo's addon."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER_ADDON
from shared.kube import ApiError, Client, dig


class Reasons:
    """Watches the addon in a thread, and collects the reasons of conditions with status False in `seen`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._end: Callable[[], None] = lambda: None
        self._applying: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: set[str] = set()

    def when_applying(self, action: Callable[[], None]) -> None:
        """Sets an action to call once, when the addon begins to apply objects."""
        self._applying = action

    def __enter__(self) -> Reasons:
        page = next(self._client.pages(CLUSTER_ADDON, "default"))
        self._version = page["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with suppress(OSError):  # the watch may have ended already
            self._end()
        self._thread.join(5)

    def _opened(self, end: Callable[[], None]) -> None:
        self._end = end

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
            if self._applying and applying.get("reason") == "ObjectsApplyingOngoing":
                action, self._applying = self._applying, None
                action()
