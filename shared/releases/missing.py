"""A release that is not in storage: what those who wait for it say, and how they ask for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from shared.event import Event, own_event
from shared.kube import Object
from shared.releases.release import Release
from shared.releases.store import Corrupted, ReleaseStore
from shared.storage import StorageError

T = TypeVar("T")

CONDITION = "ClusterStackReleaseDownloaded"
"""The condition that says whether it is there."""


@dataclass(frozen=True)
class MissingAssets:
    """Release `tag` is not in storage (any more); `failure` says why the last fetch failed, if one did, and when."""

    tag: str
    failure: str = ""
    failed_at: datetime | None = None

    @property
    def reason(self) -> str:
        return "IssueWithReleaseAssets" if self.failure else "ReleaseAssetsNotDownloadedYet"

    @property
    def message(self) -> str:
        if not self.failure:
            return f"release {self.tag} is not in storage yet; its fetch has been asked for"
        return self.failure if self.tag in self.failure else f"release {self.tag}: {self.failure}"

    def wish(self, about: Object, namespace: str, now: datetime, *, source: str, every: float) -> Event | None:
        """Has the release fetched that `about` waits for in `namespace`.

        None for `every` seconds after a failure, or question and answer would chase each other.
        """
        if self.failed_at is not None and now - self.failed_at < timedelta(seconds=every - 1):
            return None
        data = {"release": self.tag, "namespace": namespace}
        return own_event("release.wanted", source=source, subject=self.tag, about=about, data=data)


def read(store: ReleaseStore, tag: str, take: Callable[[Release], T], *, whole: bool = False) -> T | MissingAssets:
    """What `take` makes of the stored release. Any trouble with storage is a wait: the files will come, or come again.

    With `whole` all of its files must be there, not only those that `take` reads.
    """
    try:
        stored = store.load(tag, whole=whole)
        return take(stored) if stored else MissingAssets(tag, *(store.failure(tag) or ()))
    except (Corrupted, StorageError) as error:
        return MissingAssets(tag, str(error))
