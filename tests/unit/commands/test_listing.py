"""The rows of `get`: one verdict for each object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from infra.cli.commands import describe, get, resync, wait
from infra.operations.listing import KINDS, Verdict, cluster_row, provider_row, row_of, table
from shared.api.provider import INFRASTRUCTURE
from shared.kube import Object

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def conditions(**given: str) -> Object:
    """Returns a status with conditions, given as `type="status reason message"`."""
    found = []
    for type, text in given.items():
        status, reason, message = (*text.split(" ", 2), "", "")[:3]
        found.append({"type": type, "status": status, "reason": reason, "message": message})
    return {"conditions": found}


def made(kind: str, status: Object | None = None, *, spec: Object | None = None, **metadata: Any) -> Object:
    metadata = {"name": "demo", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return {"kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}}


GOOD = "True Good"


@pytest.mark.parametrize(
    ("status", "addon", "verdict"),
    [
        pytest.param(conditions(Available=GOOD), None, Verdict("True"), id="available, no addons"),
        pytest.param(conditions(Available=GOOD), conditions(Ready=GOOD), Verdict("True"), id="all ready"),
        pytest.param(
            conditions(Available="True Good", WorkersAvailable="False NotAvailable old"),
            conditions(Ready=GOOD),
            Verdict("True"),
            id="a part of an available Cluster does not count",
        ),
        pytest.param(
            {},
            None,
            Verdict("Unknown", "NotReconciled", "no program has set the condition Available yet"),
            id="no program looks after it",
        ),
        pytest.param(
            conditions(Available="False NotAvailable all", InfrastructureReady="False ObjectDoesNotExist no kind"),
            conditions(Ready="False ControlPlaneNotReady no Secret"),
            Verdict("False", "ObjectDoesNotExist", "no kind"),
            id="infrastructure comes before addons",
        ),
        pytest.param(
            conditions(Available="False NotAvailable all", WorkersAvailable="False NotAvailable no nodes"),
            conditions(Ready="False FailedToApplyObjects cni"),
            Verdict("False", "FailedToApplyObjects", "cni"),
            id="addons come before workers",
        ),
        pytest.param(
            conditions(Available="False NotAvailable all", WorkersAvailable="False NotAvailable no nodes"),
            conditions(Ready=GOOD),
            Verdict("False", "NotAvailable", "no nodes"),
            id="workers",
        ),
        pytest.param(
            conditions(Available="Unknown AvailableUnknown not asked"),
            conditions(Ready=GOOD),
            Verdict("Unknown", "AvailableUnknown", "not asked"),
            id="unknown",
        ),
        pytest.param(
            conditions(Available=GOOD),
            conditions(Ready="False NoClusterStack class plain"),
            Verdict("True"),
            id="addons that nobody wants",
        ),
    ],
)
def test_cluster_has_the_reason_of_its_first_cause(status: Object, addon: Object | None, verdict: Verdict) -> None:
    assert cluster_row(made("Cluster", status), addon and made("ClusterAddon", addon)).verdict == verdict


def test_paused_and_deleted_objects_have_that_as_reason() -> None:
    ready = conditions(Available=GOOD, Ready=GOOD)
    paused = made("Cluster", ready, spec={"paused": True})
    assert cluster_row(paused, None).verdict == Verdict("True", "Paused", "nothing changes until it is resumed")
    gone = made("ClusterStack", ready, deletionTimestamp="2026-01-02T00:00:00Z")
    assert row_of(gone).verdict == Verdict("False", "Deleting")
    gone["status"] = conditions(Deleting="True WaitingForWorkersDeletion 2 left")
    assert row_of(gone).verdict == Verdict("False", "WaitingForWorkersDeletion", "2 left")


def test_table_has_more_columns_in_the_wide_format() -> None:
    topology = {"classRef": {"name": "demo-1-36-v2"}, "version": "v1.36.2"}
    cluster = made("Cluster", {**conditions(Available=GOOD), "phase": "Provisioned"}, spec={"topology": topology})
    addon = made("ClusterAddon", conditions(Ready="False Busy two\nlines"), spec={"clusterStack": "demo-1-36-v1"})
    rows = [cluster_row(cluster, addon)]
    assert table(rows, NOW, wide=False, namespaces=False) == [
        ("NAME", "KUBERNETES", "CLASS", "APPLIED", "READY", "AGE", "REASON"),
        ("demo", "v1.36.2", "demo-1-36-v2", "demo-1-36-v1", "False", "1d0h", "Busy: two lines"),
    ]
    heads, line = table(rows, NOW, wide=True, namespaces=True)
    assert dict(zip(heads, line, strict=True))["PHASE"] == "Provisioned"
    assert (heads[0], line[0]) == ("NAMESPACE", "team")


def test_escape_sequences_of_foreign_objects_are_not_printed() -> None:
    addon = made("ClusterAddon", conditions(Ready="False Busy \x1b[2Jforged"), spec={"clusterStack": "\x1b[2J"})
    [_, line] = table([row_of(addon)], NOW, wide=True, namespaces=True)
    assert "\x1b" not in "".join(line)


def test_rows_of_foreign_shapes_have_empty_cells() -> None:
    odd = made("ClusterAddon", {"conditions": "x", "release": 5}, spec={"clusterRef": "x", "clusterStack": {}})
    [_, line] = table([row_of(odd)], NOW, wide=True, namespaces=False)
    assert line[1:5] == ("-", "-", "-", "-")


def test_provider_without_a_status_is_unknown() -> None:
    row = provider_row(made(INFRASTRUCTURE.kind))
    assert (row.cells["WANTED"], row.verdict.reason) == ("newest", "NotLookedAt")


@pytest.mark.parametrize("command", [describe, get, resync, wait])
def test_every_command_for_kinds_knows_every_kind(command: Any) -> None:
    assert {*command._KINDS} == {*KINDS}
