"""A release that is not in storage: reason and message for objects that wait for it, and the event to fetch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from shared.event import Event
from shared.kube import Object
from shared.releases.events import request_release
from shared.releases.release import Release
from shared.releases.store import CorruptedFile, ReleaseStore
from shared.storage import StorageError

T = TypeVar("T")

DOWNLOADED: Final = "ClusterStackReleaseDownloaded"
"""The condition that says whether the release is in storage."""


@dataclass(frozen=True)
class MissingAssets:
    """Release `tag` is not in storage. `failure` and `failed_at` come from the last fetch, if it failed."""

    tag: str
    failure: str = ""
    failed_at: datetime | None = None

    @property
    def reason(self) -> str:
        """The reason of condition `DOWNLOADED`."""
        return "IssueWithReleaseAssets" if self.failure else "ReleaseAssetsNotDownloadedYet"

    @property
    def message(self) -> str:
        """The message of condition `DOWNLOADED`."""
        if not self.failure:
            return f"release {self.tag} is not in storage yet; its fetch has been requested"
        return self.failure if self.tag in self.failure else f"release {self.tag}: {self.failure}"

    def fetch_request(self, about: Object, namespace: str, now: datetime, *, source: str, every: float) -> Event | None:
        """Returns the event that requests the fetch; None within `every` seconds after a failure.

        Args:
            about: The object that waits for the release; it is notified of the outcome.
            namespace: The namespace of the ClusterClass, which decides the source.
            now: The time of the decision.
            source: The source of the event: the path of the function.
            every: Seconds between two requests.
        """
        if self.failed_at is not None and now - self.failed_at < timedelta(seconds=every - 1):
            return None
        return request_release(self.tag, namespace, source=source, about=about)


def read_release(
    store: ReleaseStore, tag: str, take: Callable[[Release], T], *, complete: bool = False
) -> T | MissingAssets:
    """Returns the result of `take` for the stored release, or `MissingAssets`, even if storage does not answer.

    With `complete` all files of the release must be in storage, not only those that `take` reads.
    """
    try:
        stored = store.load(tag, complete=complete)
        return take(stored) if stored else MissingAssets(tag, *(store.last_failure(tag) or ()))
    except (CorruptedFile, StorageError) as error:
        return MissingAssets(tag, str(error))
