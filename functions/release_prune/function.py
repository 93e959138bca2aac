"""The function `release_prune`: deletes unused releases and charts that are older than `RELEASE_KEEP_HOURS`."""

from __future__ import annotations

from datetime import datetime

from shared.api.conditions import counted
from shared.api.resources import HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import collect_charts
from shared.kube import key_of
from shared.kube.crds import list_defined
from shared.releases.garbage_collection import REFERRING_KINDS, collect_garbage, references
from shared.runtime.clean_up import clean_up
from shared.storage import ObjectStore

from .triggers import TRIGGERS


def _collect(clients: Clients, objects: ObjectStore, before: datetime) -> str:
    referring = (obj for kind in REFERRING_KINDS for obj in list_defined(clients.management, kind))
    collected = collect_garbage(objects, references(referring), before)
    proxies = list_defined(clients.management, HELM_RELEASE_PROXY)
    requests = (ChartRequest.from_spec(proxy.get("spec") or {}, key_of(proxy).namespace) for proxy in proxies)
    charts = collect_charts(objects, requests, before)
    deleted = counted(collected.releases, "release"), counted(collected.blobs, "blob"), counted(charts, "chart")
    return f"{deleted[0]}, {deleted[1]} and {deleted[2]} deleted"


handle = clean_up(TRIGGERS, "releases", _collect).handle
