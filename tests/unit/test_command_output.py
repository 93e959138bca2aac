"""The status that commands print while they wait."""

from __future__ import annotations

from infra.cli.output import failing_condition
from shared.kube import Object


def addon(*conditions: Object) -> Object:
    return {"kind": "ClusterAddon", "metadata": {"name": "a"}, "status": {"conditions": list(conditions)}}


def test_first_failing_condition_with_a_message_is_reported() -> None:
    fine = {"type": "ClusterReady", "status": "True", "message": "reachable"}
    silent = {"type": "ObjectsReady", "status": "False", "message": ""}
    history = {"timestamp": "2026-01-01T00:00:00Z", "message": "cluster created"}
    applying = {"type": "Ready", "status": "False", "reason": "R", "message": "applying"}
    unknown = {"type": "Ready", "status": "Unknown", "message": "not asked yet"}
    assert (
        failing_condition()
        == failing_condition(None)
        == failing_condition({"kind": "Cluster"})
        == failing_condition(addon(fine, silent, history))
        == ""
    )
    assert failing_condition(None, addon(fine, silent, applying, unknown)) == "ClusterAddon: Ready=False: applying"
    assert failing_condition(addon(fine), addon(unknown)) == "ClusterAddon: Ready=Unknown: not asked yet"
