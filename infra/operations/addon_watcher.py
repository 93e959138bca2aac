"""Watches ClusterAddons in a thread, because polling would be a load of its own, and miss states."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from shared.api.resources import CLUSTER_ADDON
from shared.kube import ApiError, Client, Object

_SECONDS = 60
_RETRY = 0.5
_PATIENCE = 5.0
"""Seconds to wait for the start of the first watch."""


class AddonWatcher:
    """Calls `note` with each state of the ClusterAddons in a namespace, within a `with` block."""

    def __init__(self, client: Client, namespace: str, note: Callable[[Object], None]) -> None:
        self._client, self._namespace, self._note = client, namespace, note
        self._open, self._ended = threading.Event(), threading.Event()
        self._end_watch: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="addons", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._open.wait(_PATIENCE)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        with suppress(OSError):  # the watch may have ended already
            self._end_watch()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except ApiError:
                self._ended.wait(_RETRY)

    def _follow(self) -> None:
        version = ""
        for page in self._client.pages(CLUSTER_ADDON, self._namespace):
            version = page["metadata"]["resourceVersion"]
            for addon in page["items"]:
                self._note(addon)
        for event in self._client.watch(
            CLUSTER_ADDON, self._namespace, version=version, seconds=_SECONDS, on_open=self._opened
        ):
            if self._ended.is_set():
                return
            if event["type"] in ("ADDED", "MODIFIED"):
                self._note(event["object"])

    def _opened(self, end: Callable[[], None]) -> None:
        self._end_watch = end
        self._open.set()
