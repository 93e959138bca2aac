"""`describe` of Machines and of other kinds, and what --watch prints."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from infra.cli.terminal import live
from infra.cli.terminal.cluster_tree import show
from infra.operations.describe.cluster_objects import ClusterObjects
from infra.operations.describe.conditions import describe_conditions, remedy
from infra.operations.describe.document import document
from infra.operations.describe.facts import changes
from infra.operations.describe.machines import control_plane_machines, workers
from infra.operations.describe.parts import Parts
from infra.operations.reasons import REASONS
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET_BINDING,
    HELM_RELEASE_PROXY,
    MACHINE,
    MACHINE_DEPLOYMENT,
)
from shared.kube import Object, Unavailable
from tests.support.objects import manifest

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def machine(name: str, ready: str, reason: str = "", since: str = "2026-01-01T11:00:00Z", **labels: str) -> Object:
    condition = {"type": "Ready", "status": ready, "reason": reason, "lastTransitionTime": since}
    return manifest(
        MACHINE,
        name,
        "ns",
        metadata={"labels": {f"cluster.x-k8s.io/{label.replace('_', '-')}": value for label, value in labels.items()}},
        spec={"version": "v1.36.2"},
        status={"phase": "Running", "conditions": [condition]},
    )


def workers_of(*names: str) -> list[Object]:
    return [
        manifest(
            MACHINE_DEPLOYMENT,
            name,
            "ns",
            spec={"replicas": 3, "template": {"spec": {"version": "v1.36.2"}}},
            status={"readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 3},
        )
        for name in names
    ]


def text_of(found: Object) -> str:
    written = io.StringIO()
    show(Console(file=written), [found])
    return written.getvalue()


def test_machines_are_grouped_by_owner_and_state() -> None:
    machines = [
        *(machine(f"md-{name}", "True", "Ready", deployment_name="md") for name in "abc"),
        machine("md-d", "False", "NodeNotReady", deployment_name="md"),
        machine("md-e", "False", "NodeNotReady", "2026-01-01T10:00:00Z", deployment_name="md"),
        machine("cp-a", "True", "Ready", control_plane=""),
        machine("lonely", "Unknown"),
    ]
    objects = [*workers_of("md"), *machines]
    [control_plane] = control_plane_machines(objects, NOW)
    assert (control_plane["names"], control_plane["ready"]) == (["cp-a"], "True")
    [owner, others] = workers(objects, NOW)
    assert owner["replicas"] == {"desired": 3, "ready": 2, "available": 2, "upToDate": 3}
    shown = [(one["count"], one["ready"], one["reason"], one["for"]) for one in owner["machines"]]
    assert shown == [(2, "False", "NodeNotReady", "2h0m"), (3, "True", "", "1h0m")]
    assert [one["names"] for one in others["machines"]] == [["lonely"]]


def test_tree_shows_machines_charts_and_sets() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "HelmInstallOrUpgradeFailed"}
    release = manifest(
        HELM_RELEASE_PROXY,
        "cni-1",
        "ns",
        spec={"chartName": "cilium", "version": "1.2"},
        status={"status": "failed", "conditions": [ready]},
    )
    sources = [{"kind": "ConfigMap", "name": "a", "applied": True}, {"kind": "Secret", "name": "b"}]
    bindings = [{"clusterResourceSetName": "base", "resources": sources}]
    parts = Parts(
        [*workers_of("md"), machine("md-a", "True", deployment_name="md"), release],
        manifest(CLUSTER_RESOURCE_SET_BINDING, "demo", "ns", spec={"bindings": bindings}),
        ["Machine list: forbidden"],
    )
    text = text_of(document(ClusterObjects(manifest(CLUSTER, "demo", "ns"), parts=parts), NOW))
    for words in (
        "workers: MachineDeployment ns/md  2 ready, 2 available, 3 up to date of 3, v1.36.2",
        "1 Machine Ready=True for 1h0m  md-a (Running, v1.36.2)",
        "HelmReleaseProxy ns/cni-1  cilium 1.2 failed",
        "ready=False  HelmInstallOrUpgradeFailed",
        "ClusterResourceSet base  1 of 2 sources applied",
        "not read: Machine list: forbidden",
    ):
        assert words in text, text


def test_machines_of_a_control_plane_without_an_object_are_shown() -> None:
    parts = Parts([machine("cp-a", "True", control_plane="")])
    lines = text_of(document(ClusterObjects(manifest(CLUSTER, "demo", "ns"), parts=parts), NOW)).splitlines()
    assert lines[1:3] == ["├── control plane", "│   └── 1 Machine Ready=True for 1h0m  cp-a (Running, v1.36.2)"]


def test_conditions_that_are_not_as_wanted_come_first_with_meaning_and_remedy() -> None:
    conditions: list[Object] = [
        {"type": "ClusterReady", "status": "True"},
        {"type": "Deleting", "status": "False"},
        {"type": "HelmChartApplied", "status": "False", "reason": "ObjectsNotReady"},
        {"type": "Other", "status": "False", "reason": "UnheardOf"},
    ]
    found = describe_conditions("ClusterAddon", conditions, NOW)
    assert [one["type"] for one in found] == ["HelmChartApplied", "Other", "ClusterReady", "Deleting"]
    assert "toDo" in found[0]
    assert "meaning" in found[0]
    assert not any("toDo" in one for one in found[1:])
    text = text_of({"kind": "ClusterAddon", "name": "a", "ready": "False", "conditions": found})
    assert text.index("HelmChartApplied") < text.index("to do: ") < text.index("Other=False")


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{reason.kind}-{reason.condition}-{reason.names[0]}")
def test_describe_has_the_remedy_of_every_reason(reason: Any) -> None:
    kind = "CoreProvider" if reason.kind == "provider" else reason.kind.split(" or ")[0]
    assert remedy(kind, reason.names[0], reason.condition)["toDo"] == reason.remedy_text
    assert remedy("Pod", reason.names[0], reason.condition) == {}


def chart(**fields: Any) -> Object:
    return {"kind": "HelmChartProxy", "namespace": "ns", "name": "cni", "ready": "False", **fields}


CHANGES: list[tuple[Object, Object, list[str]]] = [
    (chart(), chart(), []),
    (chart(**{"for": "1s"}), chart(**{"for": "2s"}), []),
    (chart(reason="A"), chart(reason="B", message="m"), ["HelmChartProxy cni ready: False B: m"]),
    (chart(), chart(ready="True"), ["HelmChartProxy cni ready: True"]),
    (chart(objects=[{"kind": "X", "name": "a", "ready": "True"}]), chart(), ["X a ready: gone"]),
    (
        chart(conditions=[{"type": "T", "status": "False", "for": "1s"}]),
        chart(conditions=[{"type": "T", "status": "True", "for": "0s"}]),
        ["HelmChartProxy cni T: True"],
    ),
    (
        chart(inventory={"counts": {"synced": 1}}),
        chart(inventory={"counts": {"synced": 2}}),
        ["HelmChartProxy cni objects synced: 2"],
    ),
    (
        {"workers": [{"kind": "MachineDeployment", "name": "md", "replicas": {"ready": 1}}]},
        {
            "workers": [
                {
                    "kind": "MachineDeployment",
                    "name": "md",
                    "replicas": {"ready": 2},
                    "machines": [{"kind": "Machine", "count": 2, "names": ["a", "b"], "ready": "True"}],
                }
            ]
        },
        ["MachineDeployment md replicas ready: 2", "MachineDeployment md Machines: 2 Machines Ready=True"],
    ),
    (
        chart(),
        chart(events=[{"at": "2026", "object": "X a", "reason": "Done", "message": "\x1b[2J"}]),
        ["event 2026 X a: Done: \\x1b[2J"],
    ),
]


@pytest.mark.parametrize(("before", "after", "lines"), CHANGES)
def test_changes_are_lines_about_one_fact_each(before: Object, after: Object, lines: list[str]) -> None:
    assert changes([before], [after]) == lines


def followed(*, terminal: bool, states: Sequence[str | Exception], monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns what `follow` writes about states, before Ctrl-C."""
    monkeypatch.setattr(live, "_EVERY", 0)

    left = list(states)

    def read() -> str:
        if not left:
            raise KeyboardInterrupt
        state = left.pop(0)
        if isinstance(state, Exception):
            raise state
        return state

    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=60)
    with pytest.raises(KeyboardInterrupt):
        live.follow(console, read, draw=Text, changes=lambda *pair: [" -> ".join(pair)] if len({*pair}) > 1 else [])
    return written.getvalue()


def test_pipe_gets_the_first_state_and_then_a_line_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    states = ["one", "one", Unavailable("server away"), "two"]
    text = followed(terminal=False, states=states, monkeypatch=monkeypatch)
    assert text.splitlines() == ["one", "not read, tried again: server away", "one -> two"]


def test_terminal_shows_the_newest_state_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    text = followed(terminal=True, states=["one", "two"], monkeypatch=monkeypatch)
    assert "one" in text
    assert "two" in text
    assert "->" not in text
    assert "\x1b[2K" in text
