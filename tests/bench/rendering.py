"""The cost of rendering charts and evaluating expressions in a worker process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import yaml

from infra.local_control_plane.binaries import locate
from shared import cel, charts
from shared.charts import LiveCluster, native
from shared.charts.integers import with_first_template
from shared.kube import Object
from shared.kube.discovery import Discovery
from tests.support.releases import chart

from .charts import fifteen, four_hundred
from .parts import management, median, since

ROUNDS = 15
LOOKUP = '{{- $_ := lookup "v1" "Namespace" "" "default" }}'


def run() -> None:
    helm = locate(["helm"], progress=print)["helm"]
    charts.provide_helm(lambda: helm)
    started = time.perf_counter()
    charts.render_values("", {}, name="v")
    print(f"first chart of a process, which starts the worker   {since(started) * 1000:8.1f} ms")
    started = time.perf_counter()
    cel.evaluate("1 == 1", {})
    print(f"first expression after it                           {since(started) * 1000:8.1f} ms")
    _row("an expression, in the worker", lambda: cel.evaluate("a.b == 1", {"a": {"b": 1}}))
    with management() as (client, _):
        version = client.request("GET", "/version")["gitVersion"]
        live = LiveCluster(client, version, Discovery(client).served())
        asked = charts.Capabilities(version, live=live)
        for count, objects in ((15, fifteen("ns", "v1")), (400, four_hundred("ns", "v1"))):
            plain, asking = _chart(objects), _chart(objects, LOOKUP)
            addon = partial(charts.render_addon, context={}, chart_name="c", capabilities=charts.Capabilities(version))
            _row(f"{count} objects, in this process, without limits", partial(_here, plain))
            _row(f"{count} objects, in the worker", partial(addon, plain, None))
            _row(f"{count} objects, by the helm program", partial(addon, asking, None))
            _row(
                f"{count} objects, by it with a lookup",
                partial(addon, asking, None, capabilities=asked),
            )


def _chart(objects: list[Object], begin: str = "") -> bytes:
    return chart("c", {"begin.yaml": begin} | {f"{n:03}.yaml": yaml.safe_dump(obj) for n, obj in enumerate(objects)})


def _here(data: bytes) -> list[Object]:
    prepared = with_first_template(data, charts.traits(data, "c").depth)
    texts = native.render(prepared, {}, "c", "cluster-addon", "kube-system", notes=False)
    return native.parse(texts, "kube-system", hooks=[])


def _row(what: str, work: Callable[[], object]) -> None:
    work()
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(since(started))
    print(f"{what:<52}{median(seconds) * 1000:8.1f} ms", flush=True)
