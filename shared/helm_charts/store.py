"""Stores charts in object storage.

    charts/<scope>/archives/<digest>.tgz   a chart, by the SHA-256 of the archive
    charts/<scope>/requests/<id>.json      the chart that answers a request, and the reason of a failed fetch

The scope is `public`, or a namespace for charts that were fetched with credentials or a CA of its own. Requests are
records (`shared.records`), which only functions can write.

An exact version stays what it was fetched as. A range, and the newest version, are looked up again after `LOOKUP_AGE`;
until then, and while the repository does not answer, the stored chart is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from shared import storage
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object
from shared.records import LARGEST, Records
from shared.releases.blob_cache import BlobCache
from shared.storage import ObjectStore, StorageError

from .request import ChartRequest, request_chart

ROOT: Final = "charts/"
LOOKUP_AGE: Final = 600.0
"""Seconds after which a range, or the newest version, is looked up again."""
RETRY: Final = 60.0
"""Seconds between two requests after a failed fetch, by default."""
MAX_ARCHIVE: Final = 32 << 20
"""Bytes of a packed chart."""

_CACHE: Final = BlobCache(32 << 20)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST = 4000  # characters of a failure's message: objects' conditions quote it


@dataclass(frozen=True)
class FailedFetch:
    """Why and when the last fetch failed, and until when the repository accepts no requests."""

    message: str
    at: datetime
    until: datetime | None = None


@dataclass(frozen=True)
class StoredChart:
    """A chart in storage.

    Attributes:
        name: The name in `Chart.yaml`.
        version: The version in `Chart.yaml`.
        digest: The digest of the archive, as `sha256:<hexadecimal>`.
        archive: The chart as a `.tgz`.
        looked_up: When the repository was asked which version the request stands for.
        exact: Whether the request names a single version.
        failed: The last fetch, if it failed since `looked_up`.
    """

    name: str
    version: str
    digest: str
    archive: bytes
    looked_up: datetime
    exact: bool = True
    failed: FailedFetch | None = None

    def is_due(self, now: datetime) -> bool:
        """Returns whether the repository may offer a newer version."""
        return not self.exact and now - self.looked_up >= timedelta(seconds=LOOKUP_AGE)

    def lookup_request(self, about: Object, now: datetime, *, source: str) -> Event | None:
        """Returns the event that requests another look for a newer version; None if that is not due.

        `about` is the HelmReleaseProxy; `source` is the path of the function that sends the event.
        """
        recently = self.failed is not None and now - self.failed.at < timedelta(seconds=LOOKUP_AGE)
        return request_chart(about, source=source) if self.is_due(now) and not recently else None


@dataclass(frozen=True)
class MissingChart:
    """A chart that is not in storage. `failure` and `failed_at` come from the last fetch, if it failed."""

    request: ChartRequest
    failure: str = ""
    failed_at: datetime | None = None

    @property
    def message(self) -> str:
        """The message for a condition."""
        if not self.failure:
            return f"{self.request} is not in storage yet; its fetch has been requested"
        return self.failure if self.request.chart_name in self.failure else f"{self.request}: {self.failure}"

    def fetch_request(self, about: Object, now: datetime, *, source: str, every: float = RETRY) -> Event | None:
        """Returns the event that requests the fetch; None within `every` seconds after a failure.

        Args:
            about: The HelmReleaseProxy; it is notified of the outcome.
            now: The time of the decision.
            source: The path of the function that sends the event.
            every: Seconds between two requests.
        """
        if self.failed_at is not None and now - self.failed_at < timedelta(seconds=every - 1):
            return None
        return request_chart(about, source=source)


def read_chart(clients: Clients, request: ChartRequest) -> StoredChart | MissingChart:
    """Returns the chart in storage; `MissingChart` if it is absent, or if storage does not answer. Never downloads."""
    del clients  # storage is found by the settings
    try:
        return ChartStore(ObjectStore.from_env()).load(request)
    except StorageError as error:
        return MissingChart(request, str(error))


class ChartStore:
    """The stored charts of an object store. All methods raise as `ObjectStore` does."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._records = Records(objects)

    def load(self, request: ChartRequest) -> StoredChart | MissingChart:
        """Returns the stored chart of a request. A damaged one counts as missing."""
        chart, failed = self._read(request)
        if chart is not None:
            return replace(chart, failed=failed)
        return MissingChart(request, failed.message, failed.at) if failed else MissingChart(request)

    def save(self, request: ChartRequest, name: str, version: str, archive: bytes) -> None:
        """Stores the chart of a request, whose lookup was now."""
        digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
        # An existing archive is written again: to repair a damaged one, and to keep an old one from the clean-up.
        self._objects.put(archive_key(request.scope, digest), archive, if_absent=False)
        found = {"name": name, "version": version, "digest": digest, "at": datetime.now(UTC).isoformat()}
        self._write(request, {"chart": found})

    def record_failure(self, request: ChartRequest, message: str, retry_after: float | None = None) -> None:
        """Records why a fetch failed; the chart that is stored for the request stays.

        `retry_after`: the seconds during which the repository accepts no requests.
        """
        now = datetime.now(UTC)
        failed = {"message": message[:_LONGEST], "at": now.isoformat()}
        if retry_after is not None:
            failed["until"] = (now + timedelta(seconds=retry_after)).isoformat()
        record = self._record(request)
        self._write(request, {name: record[name] for name in ("chart",) if name in record} | {"failed": failed})

    def last_failure(self, request: ChartRequest) -> FailedFetch | None:
        """Returns the last fetch if it failed."""
        return _failure(self._record(request))

    def _read(self, request: ChartRequest) -> tuple[StoredChart | None, FailedFetch | None]:
        record = self._record(request)
        failed = _failure(record)
        try:
            found = record["chart"]
            name, version, digest = (str(found[field]) for field in ("name", "version", "digest"))
            looked_up = datetime.fromisoformat(found["at"])
        except (ValueError, KeyError, TypeError):
            return None, failed
        archive = self._archive(request.scope, digest)
        if archive is None:
            return None, failed
        return StoredChart(name, version, digest, archive, looked_up, request.is_exact), failed

    def _archive(self, scope: str, digest: str) -> bytes | None:
        """Returns an archive; None if it is missing or damaged."""
        if not _DIGEST.fullmatch(digest):
            return None
        if (cached := _CACHE.get(digest)) is not None:
            return cached
        data = self._objects.get(archive_key(scope, digest), MAX_ARCHIVE)
        if data is None or f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            return None
        _CACHE.add(digest, data)
        return data

    def _record(self, request: ChartRequest) -> dict[str, Any]:
        data = self._records.get(record_key(request))
        try:
            record = json.loads(data) if data is not None else {}
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    def _write(self, request: ChartRequest, record: dict[str, Any]) -> None:
        self._records.put(record_key(request), json.dumps(record).encode(), if_absent=False)


def _failure(record: dict[str, Any]) -> FailedFetch | None:
    try:
        failed = record["failed"]
        until = datetime.fromisoformat(failed["until"]) if "until" in failed else None
        return FailedFetch(str(failed["message"]), datetime.fromisoformat(failed["at"]), until)
    except (ValueError, KeyError, TypeError):
        return None


def archive_key(scope: str, digest: str) -> str:
    """Returns the key of an archive in object storage."""
    return f"{ROOT}{scope}/archives/{digest.removeprefix('sha256:')}.tgz"


def record_key(request: ChartRequest) -> str:
    """Returns the key of the record of a request in object storage."""
    return f"{ROOT}{request.scope}/requests/{request.id}.json"


_RECORD = re.compile(r"charts/(public|namespaces/[^/]+)/requests/[0-9a-f]{64}\.json")
_ARCHIVE = re.compile(r"charts/(public|namespaces/[^/]+)/archives/[0-9a-f]{64}\.tgz")


def collect_charts(objects: ObjectStore, requests: Iterable[ChartRequest], before: datetime) -> int:
    """Deletes records and archives without use, last written before `before`; returns how many archives it deleted.

    `requests` are the requests of all HelmReleaseProxies. Raises as `ObjectStore` does.
    """
    wanted = {record_key(request) for request in requests}
    listed = objects.list_objects(ROOT, partial=True)
    used: set[str] = set()
    for entry in listed:
        match = _RECORD.fullmatch(entry.key)
        if match and (entry.key in wanted or not objects.delete_old(entry, before)):
            content = objects.get(entry.key, LARGEST) or b""
            used |= {archive_key(match[1], digest) for digest in _DIGEST.findall(content.decode(errors="replace"))}
    if len(listed) >= storage.MAX_LISTED:  # a record that is not listed may need any archive
        return 0
    unused = [entry for entry in listed if _ARCHIVE.fullmatch(entry.key) and entry.key not in used]
    return sum(objects.delete_old(entry, before) for entry in unused)
