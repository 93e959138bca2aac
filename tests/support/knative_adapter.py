"""Knative's own receive adapter, the unmodified binary, watching what the functions declare."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from functions import catalog
from infra.local_control_plane.binaries import locate
from shared.kube import Client, Resource
from shared.kube.discovery import Discovery
from shared.triggers import Triggers
from tests.support import processes

_OPEN_WATCH = re.compile(
    r'apiserver_longrunning_requests\{.*,group="(.*?)",resource="(.*?)",.*,verb="WATCH",.*\} (\d+)',
)


def selectors(declared: Mapping[str, Triggers], *, reference: bool) -> dict[Resource, str]:
    """Returns kinds and selectors that the adapter watches for these functions in one of its two modes."""
    return {
        watch.resource: watch.selector
        for triggers in declared.values()
        for watch in triggers.watches
        if watch.reference == reference
    }


def watches(client: Client) -> Counter[tuple[str, str]]:
    """Returns the number of open watches by group and resource, from the API server's metrics."""
    found: Counter[tuple[str, str]] = Counter()
    for line in client.text("/metrics").splitlines():
        if match := _OPEN_WATCH.match(line):
            found[match[1], match[2]] += int(match[3])
    return found


def watched_since(client: Client, before: Counter[tuple[str, str]]) -> bool:
    """Returns whether both adapters watch. They do not report it, and send no events of existing objects.

    They skip kinds that are not served, such as Machines where no Cluster API is installed.
    """
    discovery = Discovery(client)
    resources = [r for mode in (False, True) for r in selectors(catalog.triggers(), reference=mode)]
    served = Counter((r.group, r.plural) for r in resources if discovery.resource(r.api_version, r.kind))
    return watches(client) >= before + served


def adapter(
    kubeconfig: Path, sink: str, log: Path, *, reference: bool, declared: Mapping[str, Triggers] | None = None
) -> subprocess.Popen[bytes]:
    """Starts Knative's adapter for these functions, by default all, in one of its two modes."""
    watched = selectors(declared or catalog.triggers(), reference=reference)
    resources = [
        {"gvr": {"Group": r.group, "Version": r.version, "Resource": r.plural}} | ({"selector": s} if s else {})
        for r, s in watched.items()
    ]
    config = {"allNamespaces": True, "mode": "Reference" if reference else "Resource", "resources": resources}
    environment = {
        **os.environ,
        "K_SINK": sink,
        "NAME": "test",
        "NAMESPACE": "default",
        "K_SOURCE_CONFIG": json.dumps(config),
        "PROFILING_PORT": "0",
    }
    binary = locate(["apiserver_receive_adapter"], progress=print)["apiserver_receive_adapter"]
    with log.open("wb") as output:
        return processes.start(
            [binary, "-kubeconfig", str(kubeconfig)], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
