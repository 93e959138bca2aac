"""Chaos in the whole chain of Knative: whatever is lost on the way, two sweeps lead to the state of a calm run.

Users create, change, pause and delete Clusters. Meanwhile the source of the events is down for some of these changes,
the programs of the broker and the functions are killed, the broker refuses events, and functions are called twice, in
another order, and answer late or not at all. A run prints how many changes were lost where, and what a sweep repaired.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

import pytest
import urllib3

from functions import catalog
from infra import local_control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, NAMESPACE
from shared.event import PING, Event, EventError, from_http
from shared.kube import Client, Object, dig
from shared.kube.credentials import Credentials
from shared.storage import ObjectStore
from tests.support import knative_broker
from tests.support.api_proxy import Cut, Exchange, Fault, Proxy, Request, Response
from tests.support.demo_cluster import DemoCluster
from tests.support.event_sources import Adapters, EventSource, ForwarderProcess
from tests.support.jetstream_broker import JetStreamBroker
from tests.support.knative_broker import INGRESS, KnativeBroker
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.releases import write_release
from tests.support.until import until

PAUSED = "cluster.x-k8s.io/paused"
FUNCTIONS = catalog.triggers(profiles=("addons",))
TIMEOUT = 1.0
IMPATIENT = {"retry": 4, "backoffPolicy": "exponential", "backoffDelay": "PT0.1S", "timeout": "PT1S"}
"""Shorter than that of our Broker, so that it gives up within the run."""
PATIENT = {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.1S", "timeout": "PT60S"}
"""While nothing goes wrong, no event is lost because a machine is slow."""
QUIET = 2.5
"""Seconds without a request after which an impatient broker has given up all that it repeats."""
TEMPLATE = """
{{ range .Values.names }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ . }}, namespace: {{ $.Values.namespace }}}
data: {k: {{ $.Values.version }}}
{{ end }}
"""
VALUES = """
values: |
  namespace: {{{{ .Cluster.metadata.namespace }}}}
  version: {version}
  names: [kept, only-{version}]
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each run has other choices; an exhaustive one takes more of them."""
    own = metafunc.config.option.seed
    if "chaos_seed" in metafunc.fixturenames:
        seeds = [own, own + 1, own + 2, own + 3] if metafunc.config.option.exhaustive else [own]
        metafunc.parametrize("chaos_seed", seeds, ids=lambda seed: f"seed {seed}")


# -- what users do -----------------------------------------------------------------------------------------------


class UserCluster(DemoCluster):
    """A Cluster in a namespace of its own, and how a user changes it."""

    def __init__(self, client: Client, namespace: str, kubeconfig: bytes, releases: Mapping[str, str]) -> None:
        super().__init__(client, namespace, kubeconfig)
        self._releases, self._wanted = releases, ""
        client.create(NAMESPACE, manifest(NAMESPACE, namespace))
        self.secret()

    def wants(self, what: str) -> None:
        """Changes the Cluster as a user does."""
        if what not in ("paused", "resumed"):
            self._wanted = what
        if what == "deleted":
            self.client.delete(CLUSTER, self.cluster_key)
        elif what in self._releases:
            self.cluster(self._releases[what])
        else:
            paused = {PAUSED: "true" if what == "paused" else None}
            self.client.patch(CLUSTER, self.cluster_key, {"metadata": {"annotations": paused}})

    def is_done(self) -> bool:
        """Returns whether the last change has been made of the addons, too; collects garbage."""
        self.collect()
        state = self.state()
        if self._wanted == "deleted":
            return state == {"addon": None}
        names = ["kept", f"only-{self._wanted}"]
        return bool(state["addon"][1]) and names == sorted(state["maps"]) == [name for name, _ in state["inventory"]]

    def collect(self) -> bool:
        """Deletes the ClusterAddon of a deleted Cluster, as a garbage collector does. Returns whether there was one."""
        if self.client.find(CLUSTER, self.cluster_key) or not self.client.find(CLUSTER_ADDON, self.addon_key):
            return False
        self.client.delete(CLUSTER_ADDON, self.addon_key)
        return True

    def state(self) -> Object:
        """Returns what has become of the Cluster, without times and names of namespaces."""
        addon = self.client.find(CLUSTER_ADDON, self.addon_key)
        if self.client.find(CLUSTER, self.cluster_key) is None:
            return {"addon": addon and "is left"}
        conditions = {
            each["type"]: (each["status"], each.get("reason")) for each in dig(addon, "status.conditions", [])
        }
        entries = dig(addon, "status.resources", [])
        maps = {obj["metadata"]["name"]: obj["data"] for obj in self.client.list(CONFIG_MAP, self.namespace)}
        return {
            "addon": [dig(addon, path) for path in ("spec.clusterStack", "status.ready", "metadata.finalizers")],
            "conditions": conditions,
            "inventory": sorted((entry["name"], entry["status"]) for entry in entries),
            "maps": {name: data for name, data in maps.items() if name != "kube-root-ca.crt"},
        }


def wishes(chance: random.Random) -> list[tuple[int, str]]:
    """Returns what users want, in order: the number of a Cluster, and the change.

    None ends paused, as its addons would be those of the moment.
    """
    of_clusters = [
        ["v1", "v2", "v3"],
        ["v1", "paused", "v2", "resumed"],
        ["v2", "v3", "v1"],
        ["v3", "v1", "v2"],
        ["v1", "v2", "deleted"],
    ]
    left = [number for number, wanted in enumerate(of_clusters) for _ in wanted]
    chance.shuffle(left)
    return [(number, of_clusters[number].pop(0)) for number in left]


# -- what goes wrong ---------------------------------------------------------------------------------------------


Treatment = Callable[[Exchange, "Passed"], None]
Chosen = tuple[str, Treatment]


@dataclass
class Passed:
    """The events that a server behind a proxy took, and how often each fault occurred."""

    events: list[Event] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def through(self, exchange: Exchange) -> Response:
        """Forwards the request, and remembers its event if the server takes it."""
        response = exchange.forward()
        if response.status < 300:
            try:
                event = from_http(dict(exchange.request.headers), exchange.request.body)
            except EventError:
                return response
            with self._lock:
                self.events.append(event)
        return response

    def counting(self, choose: Callable[[Request], Chosen] | None = None) -> Callable[[Request], Fault]:
        """Returns what a proxy asks for a fault; counts what is chosen."""

        def chosen(request: Request) -> Fault:
            name, fault = choose(request) if choose else ("none", passing)
            with self._lock:
                self.faults[name] = self.faults.get(name, 0) + 1
            return lambda exchange: fault(exchange, self)

        return chosen


class Faults:
    """What goes wrong in front of the broker and of the functions, by the seed and the number of a request."""

    def __init__(self, seed: int, functions: FunctionsServer) -> None:
        self._seed, self._functions = seed, functions
        self._treatments = TREATMENTS | {"killed in mid-request": self._kill}

    def in_front_of_broker(self, request: Request) -> Chosen:
        """The ingress answers 500 where its channel fails, and 503 with Retry-After where it has too much to do."""
        return self._chosen(request, ["none"] * 8 + ["ingress 500", "ingress 503"])

    def in_front_of_functions(self, request: Request) -> Chosen:
        once = ["answer lost", "delivered twice", "overtaken", "answer after the timeout", "killed in mid-request"]
        return self._chosen(request, ["none"] * 8 + ["function 500"] * 3 + once)

    def _chosen(self, request: Request, names: list[str]) -> Chosen:
        """Returns one of the names, such that each occurs once in so many requests in succession.

        There are fewer names than requests in a run, so that each fault occurs.
        """
        random.Random(f"{self._seed} {names}").shuffle(names)
        name = names[request.number % len(names)]
        return name, self._treatments[name]

    def _kill(self, exchange: Exchange, _passed: Passed) -> None:
        def call() -> None:
            with suppress(Cut):
                exchange.forward()

        Thread(target=call, daemon=True).start()
        time.sleep(0.02)
        self._functions.kill()  # who runs the test starts them again
        raise Cut


def passing(exchange: Exchange, passed: Passed) -> None:
    exchange.answer(passed.through(exchange))


def refusing(status: int) -> Treatment:
    return lambda exchange, _passed: exchange.answer(Response(status, b"", {"Retry-After": "1"}))


def lost_answer(exchange: Exchange, passed: Passed) -> None:
    passed.through(exchange)
    raise Cut


def late(exchange: Exchange, passed: Passed) -> None:
    answer = passed.through(exchange)
    time.sleep(TIMEOUT * 1.5)
    exchange.answer(answer)


def twice(exchange: Exchange, passed: Passed) -> None:
    passed.through(exchange)
    passing(exchange, passed)


def overtaken(exchange: Exchange, passed: Passed) -> None:
    time.sleep(0.6)
    passing(exchange, passed)


TREATMENTS: dict[str, Treatment] = {
    "none": passing,
    "ingress 500": refusing(500),
    "ingress 503": refusing(503),
    "function 500": refusing(500),
    "answer lost": lost_answer,
    "answer after the timeout": late,
    "delivered twice": twice,
    "overtaken": overtaken,
}


States = tuple[list[Object], list[Object]]
"""What became of the Clusters after what users want, and after the last change of all."""
Accidents = dict[int, list[Callable[[], object]]]
"""What happens before the change with this number."""


def states(clusters: Iterable[UserCluster]) -> list[Object]:
    return [cluster.state() for cluster in clusters]


def collected(clusters: Iterable[UserCluster]) -> bool:
    """Collects the garbage of the deleted Cluster. Returns whether there was some."""
    return any(cluster.collect() for cluster in clusters)


def change_all(clusters: list[UserCluster]) -> None:
    """Changes all Clusters but the last one, which is deleted."""
    for cluster in clusters[:-1]:
        cluster.wants("v4")


# -- a run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How many Clusters differed from the calm run, before the first sweep and after each.

    Attributes:
        chaos: After the chaos.
        down: After a change of all Clusters while the source was down, and nothing else went wrong.
        faults: How often each occurred.
    """

    chaos: list[int]
    down: list[int]
    faults: Mapping[str, int]


class Chain:
    """Source, broker and functions, with proxies in front of the latter two."""

    def __init__(self, stack: ExitStack, client: Client, plane: Path, folder: Path, kind: type[KnativeBroker]) -> None:
        self.client, self.kubeconfig = client, local_control_plane.kubeconfig(plane)
        self._stack, self._folder = stack, folder
        self._releases = {
            version: write_release(
                folder / "releases", version, templates={"maps.yaml": TEMPLATE}, values=VALUES.format(version=version)
            )
            for version in ("v1", "v2", "v3", "v4")
        }
        self.broker = stack.enter_context(knative_broker.knative_broker(client, plane, folder, kind))
        ingress = urlsplit(self.broker.sink)
        self._entry = stack.enter_context(Proxy(Credentials(host=f"http://{ingress.netloc}")))
        self.sink = f"{self._entry.url}{ingress.path}"
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "RELEASE_SOURCE": str(folder / "releases"),
            "CAPI_FUNCTIONS_PROFILES": "addons",
            "K_SINK": self.sink,
        }
        self.functions = FunctionsServer(environment, folder / "functions.log")
        stack.callback(self.functions.close)
        self._called = stack.enter_context(Proxy(Credentials(host=self.functions.url)))
        self.broker.wire(FUNCTIONS, lambda service: f"{self._called.url}/{service.replace('-', '_')}", PATIENT)
        self.broker.start()

    def source(self, kind: type[EventSource]) -> EventSource:
        """Returns a source that is not started; it ends with the chain."""
        source = kind(self.client, self.kubeconfig, self._folder, self.sink, FUNCTIONS)
        self._stack.callback(source.close)
        return source

    def calm(self, source: EventSource, seed: int) -> States:
        """Does what users want while nothing goes wrong."""
        clusters = self._clusters("calm")

        def done() -> bool:
            return all(cluster.is_done() for cluster in clusters)

        source.start()
        chance = random.Random(seed)
        self._do(clusters, wishes(chance), chance)
        until(done, "what users want", details=lambda: states(clusters))
        after_chaos = states(clusters)
        change_all(clusters)
        until(done, "the last change", details=lambda: states(clusters))
        source.kill()
        return after_chaos, states(clusters)

    def run(self, name: str, source: EventSource, seed: int, calm: States) -> Outcome:
        """Does what users want with chaos, and compares with the calm run."""
        chance, faults = random.Random(seed), Faults(seed, self.functions)
        clusters = self._clusters(name)
        taken, handled = Passed(), Passed()
        source.start()
        self.broker.deliver(IMPATIENT)
        self._entry.fault = taken.counting(faults.in_front_of_broker)
        self._called.fault = handled.counting(faults.in_front_of_functions)
        steps = wishes(chance)
        self._do(clusters, steps, chance, self._accidents(chance, source, len(steps)))
        self._entry.fault, self._called.fault = taken.counting(), handled.counting()
        self._quiet()
        self.broker.deliver(PATIENT)
        for event in [event for event in handled.events if event.object][:10]:
            self._post(event)  # as somebody does who empties a dead-letter sink an hour later
        chaos = self._swept(clusters, calm[0], [{}, {"everything": True}], handled)

        source.kill()
        change_all(clusters)
        source.start()
        if source.notices_what_it_missed:
            until(lambda: states(clusters) == calm[1], "the last change", details=lambda: states(clusters))
        down = self._swept(clusters, calm[1], [{}], handled)
        source.kill()
        return Outcome(chaos, down, taken.faults | handled.faults)

    def _clusters(self, name: str) -> list[UserCluster]:
        """Returns new Clusters, for functions that have sent no sweep yet."""
        self.functions.kill()
        self.functions.start()
        kubeconfig = self.kubeconfig.read_bytes()
        return [UserCluster(self.client, f"{name}-{number}", kubeconfig, self._releases) for number in range(5)]

    def _do(
        self,
        clusters: list[UserCluster],
        steps: list[tuple[int, str]],
        chance: random.Random,
        accidents: Accidents | None = None,
    ) -> None:
        for position, (number, what) in enumerate(steps):
            for accident in (accidents or {}).get(position, ()):
                accident()
            self._revive()
            clusters[number].wants(what)
            time.sleep(chance.uniform(0.05, 0.4))

    def _swept(
        self,
        clusters: list[UserCluster],
        wanted: list[Object],
        sweeps: Sequence[Mapping[str, bool]],
        handled: Passed,
    ) -> list[int]:
        """Lets sweeps repair what differs from the states that are wanted, the last sweep everything.

        Returns how many differed before the first sweep, and after each.
        """

        def differing() -> int:
            return sum(state != expected for state, expected in zip(states(clusters), wanted, strict=True))

        def done() -> bool:
            return not collected(clusters) and not differing()

        self._quiet()
        if collected(clusters):
            self._quiet()
        differed = [differing()]
        for position, data in enumerate(sweeps, 1):
            sweep = Event(type=PING, source="/test", id=uuid.uuid4().hex, data=dict(data))
            self._post(sweep)
            until(lambda: sweep.id in {event.id for event in handled.events}, "the sweep has run")  # noqa: B023
            if position == len(sweeps):
                until(done, "the state of the calm run", details=lambda: (states(clusters), wanted))
            self._quiet(unless=done if position < len(sweeps) else lambda: False)
            differed.append(differing())
        return differed

    def _accidents(self, chance: random.Random, source: EventSource, steps: int) -> Accidents:
        """Returns when what is killed, and started again."""
        found: Accidents = {}

        def down(kill: Callable[[], object], start: Callable[[], object], length: int) -> None:
            at = chance.randrange(1, steps - length)
            found.setdefault(at, []).append(kill)
            found.setdefault(at + length, []).append(start)

        down(source.kill, source.start, 4)
        for program in self.broker.programs:
            length = 2 if program == INGRESS else 1
            down(partial(self.broker.kill, program), partial(self.broker.start, program), length)
        return found

    def _post(self, event: Event) -> None:
        """Sends the event; again, if the dispatcher has just been started and has not read its channel."""
        headers, body = event.to_http()

        def taken() -> bool:
            return (
                urllib3.request("POST", self.sink, headers=headers, body=body, timeout=60, retries=False).status == 202
            )

        until(taken, "the broker takes an event")

    def _revive(self) -> None:
        """Starts the functions again if they were killed."""
        if self.functions.process is None:
            self.functions.start()

    def _quiet(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Returns when nothing has passed the proxies for a while, or earlier if `unless`."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET and not unless():
            self._revive()
            now = len(self._entry.seen) + len(self._called.seen)
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.2)


# -- the test ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[KnativeBroker, JetStreamBroker])
def chain(object_store: ObjectStore, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    with running_plane(tmp_path / "management") as plane, connected(plane) as client, ExitStack() as stack:
        knative_broker.install(client)
        yield Chain(stack, client, plane, tmp_path, request.param)


@pytest.mark.timeout(1800)  # another test run may use the port of the dispatcher
def test_two_sweeps_lead_to_the_state_of_a_calm_run(chain: Chain, chaos_seed: int) -> None:
    calm = chain.calm(chain.source(ForwarderProcess), chaos_seed)
    for name, kind in (("adapters", Adapters), ("forwarder", ForwarderProcess)):
        outcome = chain.run(name, chain.source(kind), chaos_seed, calm)
        print(f"{name}: {outcome}")
        assert outcome.faults.keys() == {*TREATMENTS, "killed in mid-request"}, outcome
        # Adapters send nothing about what changed while they were down. The forwarder does.
        assert outcome.down[0] == (4 if kind is Adapters else 0), outcome
