"""When a process takes a Lease, and which namespaces a shard has."""

from __future__ import annotations

from typing import Any

import pytest

from events.lease import Seen, next_step
from events.shard import ALL, Shard


def lease(holder: str | None, seconds: int | None = 15) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}


@pytest.mark.parametrize(
    ("found", "unchanged_for", "step"),
    [
        pytest.param(lease("me"), 0.0, "renew", id="own"),
        pytest.param(lease("me"), 100.0, "renew", id="own, and late"),
        pytest.param(lease(""), 0.0, "take", id="released"),
        pytest.param(lease(None), 0.0, "take", id="never held"),
        pytest.param({}, 0.0, "take", id="empty"),
        pytest.param(lease("other"), 0.0, "wait", id="just renewed"),
        pytest.param(lease("other"), 14.9, "wait", id="not yet expired"),
        pytest.param(lease("other"), 15.0, "take", id="expired"),
        pytest.param(lease("other", 60), 15.0, "wait", id="the holder's duration counts"),
        pytest.param(lease("other", None), 15.0, "take", id="no duration"),
    ],
)
def test_lease_is_taken_once_it_is_free_or_not_renewed(found: dict[str, Any], unchanged_for: float, step: str) -> None:
    assert next_step(found, "me", Seen((), 1000.0), 1000.0 + unchanged_for) == step


@pytest.mark.parametrize(
    ("found", "unchanged_for", "step"),
    [
        pytest.param(lease("me"), 0.0, "give up", id="own"),
        pytest.param(lease(""), 0.0, "wait", id="released"),
        pytest.param({}, 0.0, "wait", id="empty"),
        pytest.param(lease("other"), 0.0, "wait", id="just renewed"),
        pytest.param(lease("other"), 100.0, "wait", id="expired"),
    ],
)
def test_process_that_does_not_work_holds_no_lease(found: dict[str, Any], unchanged_for: float, step: str) -> None:
    assert next_step(found, "me", Seen((), 1000.0), 1000.0 + unchanged_for, works=False) == step


NAMESPACES = [f"team-{number}" for number in range(100)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_namespace_belongs_to_one_shard(count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    owners = {namespace: [shard for shard in shards if shard.owns(namespace)] for namespace in NAMESPACES}
    assert all(len(found) == 1 for found in owners.values())
    assert {found[0] for found in owners.values()} == set(shards), "no shard is idle"


def test_objects_without_a_namespace_belong_to_shard_0() -> None:
    assert [Shard(index, 3).owns("") for index in range(3)] == [True, False, False]


def test_each_shard_has_its_lease() -> None:
    assert (ALL.lease("forwarder"), Shard(1, 3).lease("forwarder")) == ("forwarder", "forwarder-1-of-3")


def test_shard_is_parsed() -> None:
    assert Shard.parse("2/3") == Shard(2, 3)


@pytest.mark.parametrize("text", ["", "3", "3/3", "0/0", "-1/3", "1/3/5", "a/b", "٣/٩"])
def test_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shard"):
        Shard.parse(text)
