"""Whether stored objects are valid in the CRDs of another version, which a throwaway control plane decides."""

from __future__ import annotations

from typing import Any

from infra.cli.terminal.provider_plan_text import lines
from infra.operations.providers.plan import ProviderPlan, with_stored_objects
from infra.operations.providers.stored_objects import StoredKind, StoredObject
from shared.kube import Client, Key, Object, Resource
from shared.kube.crds import CRD, await_established

TEXT: Object = {"type": "string"}


def definition(kind: Resource, **versions: Object) -> Object:
    """Returns the CRD of a kind with the properties of the spec in each version; the last one is stored."""
    *_, stored = versions
    status = {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 5}}}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == stored,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": properties}, "status": status},
                        }
                    },
                }
                for name, properties in versions.items()
            ],
        },
    }


def create(client: Client, kind: Resource, key: Key, phase: str = "Ready", **spec: Any) -> None:
    metadata = {"name": key.name, "namespace": key.namespace}
    client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec})
    client.patch(kind, key, {"status": {"phase": phase}}, subresource="status")


def test_plan_finds_invalid_objects_and_lost_fields(management: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    thing, moved, removed, absent = (
        Resource(group, "v1", name.title(), f"{name}s") for name in ("thing", "moved", "removed", "absent")
    )
    for kind in (thing, moved, removed):
        found = definition(kind, v1={"size": TEXT, "old": TEXT})
        found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["phase"] = TEXT
        management.create(CRD, found)
        await_established(management, found["metadata"]["name"])
    create(management, thing, Key(namespace, "fine"), size="s")
    create(management, thing, Key(namespace, "loses"), size="s", old="x")
    create(management, thing, Key(namespace, "large"), size="enormous")
    create(management, thing, Key(namespace, "phase"), phase="Provisioned", size="s")
    create(management, moved, Key(namespace, "moved"), old="x")
    create(management, removed, Key(namespace, "removed"))
    before = [list(management.list(kind)) for kind in (thing, moved, removed)]
    new = (
        definition(thing, v1={"size": {"type": "string", "maxLength": 3}}),
        definition(moved, v1={"size": TEXT, "old": TEXT}, v2={"size": TEXT}),
        definition(removed, v2={"size": TEXT}),
        definition(absent, v1={}),
    )
    plan = with_stored_objects(management, ProviderPlan("CoreProvider", Key("a", "b"), "v1", "v2", crds=new), print)
    assert [list(management.list(kind)) for kind in (thing, moved, removed)] == before
    things, *others = plan.stored
    assert (things.version, things.checked, things.invalid) == ("v1", 4, 2)
    large, loses, phase = things.found
    assert "spec.size: Too long" in large.problem
    assert "status.phase: Too long" in phase.problem
    assert loses == StoredObject(namespace, "loses", lost=("spec.old",))
    remark = "1 object not checked: both CRDs serve no common version"
    assert others == [
        StoredKind(f"moveds.{group}", "v1", 1),
        StoredKind(f"removeds.{group}", remark=remark),
        StoredKind(f"absents.{group}"),
    ]
    assert (plan.exit_code, plan.dump()["storedObjects"][0]["invalid"]) == (4, 2)
    text = "\n".join(lines(plan))
    assert "4 objects checked as v1, 2 invalid" in text
    assert f"{namespace}/loses: loses spec.old" in text
    assert remark in text
