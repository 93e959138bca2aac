"""Field managers whose fields are adopted."""

from __future__ import annotations

from typing import Any

import pytest

from shared.applier.adoption import adopted_fields
from shared.applier.owner import Mark, Owner
from shared.kube import MANAGER, Object

LABEL = "cluster.x-k8s.io/provider"
MARK: Object = {"f:metadata": {"f:labels": {f"f:{LABEL}": {}}}}


def entry(manager: str, fields: Object, operation: str = "Update", **more: Any) -> Object:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def ours(fields: Object = MARK, **more: Any) -> Object:
    return entry(MANAGER, fields, "Apply", **more)


def obj(*entries: Object) -> Object:
    return {"metadata": {"name": "a", "managedFields": list(entries)}}


SPEC: Object = {"f:spec": {"f:a": {}, "f:list": {'k:{"name":"x"}': {".": {}, "f:y": {}}}}}
BOTH = {**MARK, **SPEC}
EDITED = entry("kubectl-edit", SPEC)


@pytest.mark.parametrize(
    ("entries", "after"),
    [
        ([], None),
        ([ours()], None),
        ([entry("clusterctl", MARK)], None),  # not applied by us yet
        ([ours(), EDITED], None),
        ([ours(), entry("clusterctl", BOTH)], [ours(BOTH)]),
        ([entry("manager", BOTH), ours(), EDITED], [ours(BOTH), EDITED]),
        ([ours(), entry("capi-operator", MARK, "Apply"), entry("manager", BOTH)], [ours(BOTH)]),
        ([ours(), entry("clusterctl", BOTH, subresource="status")], None),
        ([ours(), entry("clusterctl", BOTH, apiVersion="v1beta1")], None),
        ([ours(), entry(MANAGER, BOTH)], None),  # made by us, then applied
        (
            [ours({**MARK, "f:spec": {"f:b": {}}}), entry("clusterctl", BOTH)],
            [ours({**MARK, "f:spec": {"f:b": {}, **SPEC["f:spec"]}})],
        ),
    ],
)
def test_fields_of_former_installers_are_merged_into_ours(entries: list[Object], after: list[Object] | None) -> None:
    assert adopted_fields(obj(*entries), Owner("CoreProvider", {}, Mark({LABEL: "mine"}))) == after
