"""Deletes unused charts from object storage: records that no HelmReleaseProxy requests, and archives without records.

Only entries that were last written before a limit are deleted, so a fetch in progress keeps its archive. A chart that a
new object needs is fetched again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from shared import storage
from shared.records import LARGEST
from shared.storage import ObjectStore

from .request import ChartRequest
from .store import ROOT, archive_key, record_key

_RECORD = re.compile(r"charts/(public|namespaces/[^/]+)/requests/[0-9a-f]{64}\.json")
_ARCHIVE = re.compile(r"charts/(public|namespaces/[^/]+)/archives/[0-9a-f]{64}\.tgz")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


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
