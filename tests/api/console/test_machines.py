"""The tree of a Cluster down to its Machines, from an API server that serves the kinds of machines."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from infra.operations.clusters import describe
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from shared.kube import Client, Object, Resource, owner_reference
from shared.kube.crds import CRD, await_established
from tests.support.console import console, get
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane


def define(client: Client, *kinds: Resource) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in kinds:
        name = f"{kind.plural}.{kind.group}"
        names = {"kind": kind.kind, "plural": kind.plural}
        version = {"name": kind.version, "served": True, "storage": True, "schema": schema}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
        client.create(CRD, manifest(CRD, name, spec=spec))
        await_established(client, name)


def machine(client: Client, kind: Resource, name: str, owner: Object, cluster: str = "demo") -> Object:
    metadata = {
        "labels": {CLUSTER_NAME_LABEL: cluster, "cluster.x-k8s.io/deployment-name": "workers"},
        "ownerReferences": [owner_reference(owner)],
    }
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return client.create(kind, manifest(kind, name, "default", metadata=metadata, status=status))


def test_machines_are_below_their_owners(tmp_path: Path) -> None:
    with running_plane(tmp_path / "management") as folder, connected(folder) as client:
        define(client, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET)
        cluster = client.create(CLUSTER, manifest(CLUSTER, "demo", "default", spec={"paused": True}))
        deployment = machine(client, MACHINE_DEPLOYMENT, "workers", cluster)
        replicas = machine(client, MACHINE_SET, "workers-1", deployment)
        machine(client, MACHINE, "workers-1-a", replicas)
        machine(client, MACHINE, "foreign", cluster, cluster="other")
        with console(client) as address:
            text = get(address, "clusters/default/demo").text
        paths = re.findall(r'<details id="([^"]*)">', text)
        assert "/MachineDeployment workers/MachineSet workers-1/Machine workers-1-a" in paths
        assert "foreign" not in text
        [owner] = describe(client, cluster, datetime.now(UTC))["workers"]
        assert (owner["name"], [group["names"] for group in owner["machines"]]) == ("workers", [["workers-1-a"]])
