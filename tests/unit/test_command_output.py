"""What the commands tell of objects while they wait."""

from __future__ import annotations

from infra.cli.output import news
from shared.kube import Object


def addon(*conditions: Object) -> Object:
    return {"kind": "ClusterAddon", "metadata": {"name": "a"}, "status": {"conditions": list(conditions)}}


def test_news_tell_that_a_condition_is_false() -> None:
    fine = {"type": "ClusterReady", "status": "True", "message": "reachable"}
    silent = {"type": "ObjectsReady", "status": "False", "message": ""}
    history = {"timestamp": "2026-01-01T00:00:00Z", "message": "cluster created"}
    applying = {"type": "Ready", "status": "False", "reason": "R", "message": "applying"}
    unknown = {"type": "Ready", "status": "Unknown", "message": "not asked yet"}
    assert news() == news(None) == news({"kind": "Cluster"}) == news(addon(fine, silent, history)) == ""
    assert news(None, addon(fine, silent, applying, unknown)) == "ClusterAddon: Ready=False: applying"
    assert news(addon(fine), addon(unknown)) == "ClusterAddon: Ready=Unknown: not asked yet"
