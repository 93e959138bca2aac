"""A HelmReleaseProxy with a chart of 400 objects, compared to a bare urllib3 client with as many threads.

The time of the function has all parts of an upgrade: values, rendering, Helm's record, status and the objects.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from infra import local_control_plane
from infra.local.helm import helm
from shared.addons.owner import OWNER
from shared.api.resources import NAMESPACE
from shared.applier.desired import desired
from shared.applier.sync import THREADS
from shared.clients import Clients
from shared.kube import dig
from shared.kube.discovery import Discovery
from shared.storage import ObjectStore
from tests.support.helm_releases import MAP, HelmWorld
from tests.support.moto_server import create_bucket
from tests.support.releases import config_map

from . import rollout
from .parts import management, median, since, storage

BUCKET = "bench"


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, management() as (client, plane), storage(Path(folder)):
        os.environ["CAPI_FUNCTIONS_BUCKET"] = BUCKET
        create_bucket(os.environ["S3_ENDPOINT_URL"], BUCKET)
        for name in ("bench", "bench-bare"):
            client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        kubeconfig = local_control_plane.kubeconfig(plane).read_bytes()
        store = ObjectStore.from_env()
        world = HelmWorld(client, "bench", kubeconfig, Clients(client), store, helm(print), Path(folder))
        world.initialized()
        world.chart("1.0.0", {f"{n:03}.yaml": MAP.format(f"m{n:03}") for n in range(rollout.OBJECTS)})
        served = Discovery(client).served()
        ours, bare = [], []
        for number in range(rollout.ROUNDS + 1):
            world.proxy(values=f"x: ours-{number}\n")
            started = time.perf_counter()
            answer = world.call()
            ours.append(since(started))
            assert dig(world.read(), "status.revision") == number + 1, answer.message
            wanted = desired(
                [config_map(f"m{n:03}", f"bare-{number}", namespace="bench-bare") for n in range(rollout.OBJECTS)],
                served,
                OWNER,
                default_namespace="bench-bare",
            )
            started = time.perf_counter()
            rollout.apply_bare(wanted)
            bare.append(since(started))
        ours, bare = ours[1:], bare[1:]  # the first round creates, the others change
        ratio = median([b / o for o, b in zip(ours, bare, strict=True)])
        print(f"upgrade of {rollout.OBJECTS} objects: {median(ours):.2f} s")
        print(f"bare urllib3, {THREADS} threads: {median(bare):.2f} s; the release reaches {ratio:.2f} of it")
