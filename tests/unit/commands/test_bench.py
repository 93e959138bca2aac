"""`capi-functions bench fleet` without a cluster: its figures, and what it refuses."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli.main import app
from infra.operations.bench import removal
from infra.operations.bench.load import Load, WorkloadCluster
from infra.operations.bench.readiness import figures
from infra.operations.failure import Failure
from infra.operations.waiting import WaitTimeout
from shared.api.names import OWNED, OWNED_LABEL
from shared.kube import loading_rules


def kubeconfig(folder: Path, **user: object) -> Path:
    document = {
        "current-context": "there",
        "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.mark.parametrize(
    ("seconds", "p50", "p99", "slowest"),
    [([2.0], 2, 2, 2), ([3.0, 1.0], 1, 3, 3), ([float(n) for n in range(1, 201)], 100, 198, 200)],
)
def test_percentiles_are_times_of_single_clusters(seconds: list[float], p50: float, p99: float, slowest: float) -> None:
    created = {f"c{number}": float(number) for number in range(len(seconds))}
    ready = {name: created[name] + spent for name, spent in zip(created, seconds, strict=True)}
    found = figures(created, ready)
    assert (found["p50"], found["p99"], found["slowest"]) == (p50, p99, slowest)


def test_time_of_a_load_is_from_the_first_cluster_to_the_last_that_is_ready() -> None:
    assert figures({"a": 10.0, "b": 12.0}, {"a": 15.0, "b": 14.0})["seconds"] == 5.0


def test_names_of_clusters_sort_in_the_order_of_their_numbers() -> None:
    names = Load(1200, "space", "class").names
    assert names == sorted(names)
    assert len(set(names)) == 1200


@pytest.mark.parametrize(("what", "counts"), [("namespaces", [3, 3, 3]), ("Clusters", [3, 2, 2, 2])])
def test_deletion_that_nobody_does_is_not_awaited(
    what: str, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_POLL", 0)
    monkeypatch.setattr(removal, "_STALLED", 0)
    rest = iter(counts)
    with pytest.raises(WaitTimeout, match=f"{counts[-1]} {what} are still there .* who deletes?"):
        removal.await_gone(what, lambda: [{"metadata": {"name": "one"}}] * next(rest), "who deletes?", print, math.inf)


@pytest.mark.parametrize(
    ("created", "labels", "expected"),
    [
        ("2026-01-01T00:00:01Z", {OWNED_LABEL: OWNED}, True),
        ("2026-01-01T00:00:00Z", {OWNED_LABEL: OWNED}, False),
        ("2025-12-31T23:59:59Z", {OWNED_LABEL: OWNED}, False),
        ("2026-01-01T00:00:01Z", {}, False),
    ],
    ids=["later", "in the second in which the load began", "earlier", "of someone else"],
)
def test_object_is_of_a_load_if_it_was_created_after_its_namespace(
    created: str, labels: dict[str, str], expected: bool
) -> None:
    obj = {"metadata": {"creationTimestamp": created, "labels": labels}}
    assert removal.is_of_load(obj, datetime(2026, 1, 1, tzinfo=UTC)) is expected


def test_kubeconfig_of_each_cluster_differs(tmp_path: Path) -> None:
    workload = WorkloadCluster.of(loading_rules.load([kubeconfig(tmp_path, token="t")]))
    assert workload.secret_value("a") != workload.secret_value("b")


def test_kubeconfig_that_a_secret_cannot_carry_is_refused(tmp_path: Path) -> None:
    loaded = loading_rules.load([kubeconfig(tmp_path, exec={"command": "login"})])
    with pytest.raises(Failure, match="--workload-kubeconfig"):
        WorkloadCluster.of(loaded)


def test_release_of_others_is_not_applied_to_the_management_cluster(tmp_path: Path) -> None:
    file = str(kubeconfig(tmp_path, token="t"))
    result = CliRunner().invoke(app, ["bench", "fleet", "--release", "local-demo-1-36-v1", "--kubeconfig", file])
    assert result.exit_code == 1
    assert "--workload-kubeconfig" in result.stderr
