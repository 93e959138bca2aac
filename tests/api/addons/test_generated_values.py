"""Values that a chart generates are kept over retries and drift checks, stored in a Secret only, and reported."""

from __future__ import annotations

import base64
import json

import pytest

from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET
from shared.event import change_event
from shared.kube import Conflict, Key, Object, dig, owned_by
from tests.support.demo_cluster import ADDON
from tests.support.objects import secret as a_secret
from tests.support.releases import write_release, write_stages
from tests.support.world import World

PASSWORD = """
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: "%s"}
data: {password: {{ randAlphaNum 20 | b64enc }}}
"""
DATE = '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: date, namespace: "%s"}\ndata: {at: "{{ now }}"}\n'
REFUSED = '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name, namespace: "%s"}\n'


def release(world: World, version: str, *templates: str) -> str:
    texts = {f"{number}.yaml": text % world.namespace for number, text in enumerate(templates)}
    return write_release(world.releases, version, templates=texts)


def password(world: World) -> str:
    return str(world.client.get(SECRET, Key(world.namespace, "db"))["data"]["password"])


def kept(world: World) -> Object | None:
    return world.client.find(SECRET, Key(world.namespace, f"{ADDON}-generated"))


def upgrade(world: World, class_name: str) -> None:
    patch = {"spec": {"topology": {"classRef": {"name": class_name}}}}
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), patch)


def test_retries_of_a_failing_release_do_not_rotate_values(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD, REFUSED))
    world.secret()
    assert world.settle().retry_after == 20.0
    first = password(world)
    for _ in range(2):
        assert world.settle().retry_after == 20.0
        assert password(world) == first


def test_drift_check_finds_no_drift_and_repairs_to_the_first_value(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD, DATE), policy={"drift": "repair"})
    world.secret()
    world.settle()
    first, date = password(world), world.read("date")
    world.resync()
    assert password(world) == first
    assert world.read("date")["metadata"]["resourceVersion"] == date["metadata"]["resourceVersion"]
    world.client.delete(SECRET, Key(world.namespace, "db"))
    world.resync()
    assert password(world) == first


def test_new_release_generates_new_values(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD))
    world.secret()
    world.settle()
    first = password(world)
    upgrade(world, release(world, "v2", PASSWORD))
    world.settle()
    assert password(world) != first


def test_condition_names_release_and_fields_without_values(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD))
    world.secret()
    world.settle()
    condition = world.condition("GeneratedValuesKept")
    assert (condition["status"], condition["reason"]) == ("True", "RenderNotRepeatable")
    assert "test-stack-1-36-v1: 1 field differs" in condition["message"]
    assert f"Secret {world.namespace}/db: data.password" in condition["message"]
    assert world.condition("Ready")["status"] == "True"
    plain = base64.b64decode(password(world)).decode()
    for text in (json.dumps(world.addon()), *(str(answer.message) for _, answer in world.answers)):
        assert plain not in text
        assert password(world) not in text
    upgrade(world, release(world, "v2", DATE.replace("{{ now }}", "fixed")))
    world.settle()
    assert "GeneratedValuesKept" not in [one["type"] for one in world.addon()["status"]["conditions"]]


def test_secret_is_deleted_with_cluster_and_addon(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD))
    world.secret()
    world.settle()
    secret = kept(world)
    assert secret is not None
    assert owned_by(secret, world.addon())
    world.client.delete(CLUSTER, world.cluster_key)
    world.client.delete(CLUSTER_ADDON, world.addon_key)
    world.call("addon_apply", change_event(world.addon(), "update", source="/test"))
    assert kept(world) is None


def test_secret_of_another_owner_is_reported_and_not_changed(world: World) -> None:
    foreign = a_secret(f"{ADDON}-generated", world.namespace, value=b"mine")
    world.client.create(SECRET, foreign)
    world.cluster(release(world, "v1", PASSWORD))
    world.secret()
    assert world.settle().retry_after == 60.0
    assert "is not owned by" in world.condition("HelmChartTemplated")["message"]
    world.client.delete(CLUSTER_ADDON, world.addon_key)
    addon = world.client.find(CLUSTER_ADDON, world.addon_key)
    if addon is not None:
        world.call("addon_apply", change_event(addon, "update", source="/test"))
    found = kept(world)
    assert found is not None
    assert found["data"] == foreign["data"]


def test_values_of_the_first_of_two_processes_are_kept(world: World) -> None:
    from shared.addons.first_values import FirstValues, GeneratedField
    from shared.addons.stored_values import SaveValues, StoredValues

    world.cluster(release(world, "v1", PASSWORD))
    world.secret()
    world.settle()
    record = FirstValues("addons.tgz", {GeneratedField("", "Secret db", ("data", "password")): "other"}, {"": "x"})
    for stale in (StoredValues(), StoredValues(resource_version="1")):
        with pytest.raises(Conflict):
            SaveValues(world.addon(), stale, record).execute(world.clients)


def test_damaged_values_are_reported_and_nothing_is_rotated(world: World) -> None:
    world.cluster(release(world, "v1", PASSWORD, REFUSED))
    world.secret()
    world.settle()
    first, key = password(world), Key(world.namespace, f"{ADDON}-generated")
    whole = base64.b64decode(dig(kept(world), "data.values"))
    for damaged in (b"no gzip", whole[:10] + b"\xff" * 20, whole[:-9]):
        world.client.patch(SECRET, key, {"data": {"values": base64.b64encode(damaged).decode()}})
        assert world.settle().retry_after == 60.0
        assert f"Secret {key} with the values" in world.condition("HelmChartTemplated")["message"]
        assert password(world) == first
    world.client.delete(SECRET, key)
    world.settle()
    assert password(world) != first


STAGES = """\
  AfterControlPlaneInitialized:
    - {name: one}
    - name: two
      waitForPreCondition:
        objects: [{key: flag, apiVersion: v1, kind: ConfigMap, name: flag, namespace: "%s"}]
        conditions: has(flag.data)
"""


def test_values_stay_while_later_stages_wait(world: World) -> None:
    def charts(version: str) -> dict[str, dict[str, str]]:
        return {
            "one": {"db.yaml": PASSWORD % world.namespace, "v.yaml": f"# {version}"},
            "two": {"date.yaml": DATE % world.namespace},
        }

    world.cluster(write_stages(world.releases, "v1", STAGES % world.namespace, {}, templates=charts("v1")))
    world.secret()
    assert world.settle().retry_after == 20.0
    first = password(world)
    world.client.create(CONFIG_MAP, world.map("flag"))
    assert world.settle().retry_after is None
    assert password(world) == first
    date = world.read("date")["data"]
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"spec": {"hook": "AfterClusterUpgrade"}})
    world.settle()
    assert (password(world), world.read("date")["data"]) == (first, date)
