"""Faults of all that functions talk to, in the middle of a journey: each ends in the right state once it is gone.

A journey is the life of one addon, or of one provider: created, upgraded, deleted. Each step begins while the fault
lasts; then conditions and answers say what is wrong. Afterwards the state is that of a journey without a fault: the
same objects, inventory and conditions, and the history of the API server shows that no object was created twice.

Functions are one real process, whose peak memory each test prints (VmHWM). Other faults have tests elsewhere: two
forwarders that are both active, watches that end each second or hang (`test_forwarder.py`), object stores that lie in
their protocol (`test_store.py`) or exchange objects (`test_exchanged_objects.py`), kills
(`tests/e2e/test_kill_*.py`), and answers of a workload API server in all phases
(`tests/api/addons/test_faulty_api_server.py`).
"""

from __future__ import annotations

import base64
import json
import random
import re
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
import yaml

from infra.local.functions_server import ROOT
from shared.api.names import ADDON_FINALIZER, OWNED_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, NAMESPACE, SECRET
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.event import PING, Event
from shared.kube import ApiError, Client, Key, Object, Resource, connect, dig, key_of
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects, processes
from tests.support.api_proxy import (
    Fault,
    Proxy,
    Request,
    answering,
    cut_after,
    cut_before,
    dripping,
    half_body,
    hanging,
    replacing,
    slow,
)
from tests.support.fake_provider import FakeProvider
from tests.support.faulty_functions import FaultyFunctions, by_name, faulty_functions
from tests.support.http_server import HttpServer, Response
from tests.support.http_server import Request as HttpRequest
from tests.support.moto_server import create_bucket
from tests.support.provider_world import Providers
from tests.support.releases import chart, config_map, write_release
from tests.support.swept_addons import SweptAddons, owned
from tests.support.until import until

STATUS: Object = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}


@pytest.fixture(scope="module")
def store(object_store_url: str) -> Iterator[ObjectStore]:
    bucket = f"faults-{uuid.uuid4().hex[:8]}"
    create_bucket(object_store_url, bucket)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "S3_ENDPOINT_URL": object_store_url,
            "CAPI_FUNCTIONS_BUCKET": bucket,
            "CAPI_FUNCTIONS_STORE_KEY": "k" * 32,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        yield ObjectStore.from_env()


@pytest.fixture(scope="module")
def process(
    kubeconfig: Path,
    store: ObjectStore,
    object_store_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    helm: Path,
) -> Iterator[FaultyFunctions]:
    with faulty_functions(kubeconfig, store, object_store_url, tmp_path_factory.mktemp("faults"), helm) as process:
        yield process


@pytest.fixture
def functions(process: FaultyFunctions, request: pytest.FixtureRequest) -> Iterator[FaultyFunctions]:
    """The process without faults; its peak memory is printed after the test."""
    process.heal()
    process.forget_peak()
    yield process
    process.heal()
    print(f"peak memory of the functions: {process.peak()} MiB")


# -- the journey of an addon -----------------------------------------------------------------------------------

FaultOf = Callable[["AddonJourney"], AbstractContextManager[None]]


@dataclass
class AddonJourney:
    """One Cluster with its addons, in a namespace of its own."""

    functions: FaultyFunctions
    client: Client
    namespace: str
    templates: dict[str, str] = field(default_factory=dict)
    """More files of the charts."""
    ignored: str = ""
    """The key of annotations that the comparison leaves out."""

    def __post_init__(self) -> None:
        self.addons = SweptAddons(self.client, self.namespace, by_name(self.functions.workload), self.functions.deliver)
        self.began = {one: _version(self.client, one, self.namespace) for one in (CONFIG_MAP, SECRET, CLUSTER_ADDON)}
        self.said: list[str] = []
        """What answers and conditions said while the fault lasted."""
        self.states: list[Object] = []
        """The state after each step."""

    def desired(self, value: str) -> list[Object]:
        last = "old" if value == "1" else "new"
        maps = [config_map(name, value, self.namespace) for name in ("m0", "m1", "m2", last)]
        login = {"name": "login", "namespace": self.namespace}
        return [*maps, {"apiVersion": "v1", "kind": "Secret", "metadata": login, "stringData": {"k": value}}]

    def take(self, fault: FaultOf) -> list[Object]:
        """Takes the journey, with the fault at the begin of each step; returns the states."""
        for value in ("1", "2"):
            name = write_release(self.functions.releases, new_version(), self.desired(value))
            self._write_templates(name, value)
            with fault(self):
                self.addons.apply_class(name)
                self._events()
            self.addons.until(lambda name=name: self.addons.ready(name), "Ready", within=60)  # type: ignore[misc]
            self.states.append(self._state(name))
        with fault(self):
            self.addons.remove()
            self._events()
        self.addons.until(self.addons.gone, "the end of the addon")
        self.states.append({"created": self._created(), "secrets": self._secrets()})
        return self.states

    def _write_templates(self, name: str, value: str) -> None:
        if self.templates:
            folder = self.functions.releases / name
            [archive] = folder.glob("*-cluster-addon-*.tgz")
            desired = yaml.safe_dump_all(self.desired(value))
            archive.write_bytes(chart("addons", {"all.yaml": desired, **self.templates}))

    def _events(self) -> None:
        """Delivers events while the fault lasts; what is wrong is in `said`."""
        first = len(self.addons.answers)
        cluster = self.addons.deliver_change(CLUSTER, self.addons.cluster_key)
        if cluster is None:
            self.addons.deliver_change(CLUSTER_ADDON, self.addons.addon_key)
        for answer in self.addons.answers[first:]:
            check_answer(answer)
            self.said.append(answer.message)
        addon = self.client.find(CLUSTER_ADDON, self.addons.addon_key)
        for condition in dig(addon, "status.conditions", []):
            if condition["status"] == "False":
                self.said.append(f"{condition['reason']}: {condition.get('message')}")

    # -- the state ---------------------------------------------------------------------------------------------

    def _state(self, name: str) -> Object:
        """Returns all that the journey led to, in a form that is equal for all journeys."""
        addon, found = self.addons.addon(), {}
        for resource in (CONFIG_MAP, SECRET):
            for obj in self.client.list(resource, self.namespace, selector=OWNED_LABEL):
                found[f"{resource.kind} {obj['metadata']['name']}"] = self._content(obj)
        entries = self.addons.inventory()
        for entry in entries.values():
            assert entry["uid"] == self._uid(entry)
        state = {
            "objects": found,
            "inventory": {f"{kind} {name}": entry["status"] for (kind, name), entry in entries.items()},
            "errors": [entry for entry in entries.values() if entry.get("error") or entry.get("waiting")],
            "conditions": {one["type"]: one["status"] for one in dig(addon, "status.conditions")},
            "ready": dig(addon, "status.ready"),
            "history": len(dig(addon, "status.history", [])),
            "finalizers": addon["metadata"]["finalizers"],
            "owners": [owner["kind"] for owner in addon["metadata"]["ownerReferences"]],
            "secrets": self._secrets(),
        }
        text = json.dumps(state, sort_keys=True).replace(self.namespace, "NAMESPACE").replace(name, "RELEASE")
        result: Object = json.loads(text)
        return result

    def _content(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != self.ignored}
        return {"data": obj["data"], "labels": metadata["labels"], "annotations": annotations}

    def _uid(self, entry: Object) -> str:
        resource = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}[entry["kind"]]
        return str(self.client.get(resource, Key(self.namespace, entry["name"]))["metadata"]["uid"])

    def _secrets(self) -> int:
        """Returns the number of Secrets that functions keep for the addon."""
        listed = self.client.list(SECRET, self.namespace)
        return sum(OWNED_LABEL not in (obj["metadata"].get("labels") or {}) for obj in listed)

    def _created(self) -> Object:
        """Returns how often each object was created and deleted since the begin, as the API server recorded it."""
        created: Object = {}
        for resource, began in self.began.items():
            for change, names in _history(self.client, resource, self.namespace, began).items():
                counts: Counter[str] = Counter()
                for name, count in names.items():
                    # Names of Secrets that functions keep for an addon contain a digest.
                    counts["(of the addon)" if name.startswith("cluster-addon-demo-") else name] += count
                del counts["kube-root-ca.crt"], counts["end"]
                created[f"{change} {resource.kind}"] = dict(sorted(counts.items()))
        return created


def check_answer(answer: Answer) -> None:
    """Asserts that the answer of a function is one of its contract, and repeats the event within a minute."""
    assert answer.status in (200, 202, 204, 503), answer
    if answer.status == 503:
        assert answer.retry_after is not None, answer
        assert 0 < answer.retry_after <= 60, answer


def _version(client: Client, resource: Resource, namespace: str) -> str:
    [page] = client.pages(resource, namespace)
    return str(page["metadata"]["resourceVersion"])


def _history(client: Client, resource: Resource, namespace: str, began: str) -> dict[str, Counter[str]]:
    """Returns how often each name was added and deleted, by the API server's own record."""
    end = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "end", "namespace": namespace},
    }
    if resource is CLUSTER_ADDON:
        end["spec"] = {"clusterRef": {"name": "end"}}
    client.create(resource, end)
    found: dict[str, Counter[str]] = {"ADDED": Counter(), "DELETED": Counter()}
    for event in client.watch(resource, namespace, version=began, seconds=60):
        name = dig(event["object"], "metadata.name", "")
        if event["type"] in found:
            found[event["type"]][name] += 1
        if name == "end":
            break
    return found


@contextmanager
def no_fault(_journey: AddonJourney) -> Iterator[None]:
    yield


@pytest.fixture(scope="module")
def reference(process: FaultyFunctions, kubeconfig: Path) -> list[Object]:
    """The states of a journey without a fault."""
    client = connect.from_kubeconfig(str(kubeconfig))
    try:
        return AddonJourney(process, client, new_namespace(client)).take(no_fault)
    finally:
        client.close()


def new_version() -> str:
    return f"v{uuid.uuid4().int % 10**8 + 1}"


def new_namespace(client: Client) -> str:
    name = f"faults-{uuid.uuid4().hex[:8]}"
    client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


# -- faults of servers -----------------------------------------------------------------------------------------

HTTP: dict[str, Fault] = {
    "429 for a second": answering(429, STATUS | {"message": "too many requests"}, Retry_After="1"),
    "429 for an hour": answering(429, STATUS | {"message": "too many requests"}, Retry_After="3600"),
    "500": answering(500, STATUS | {"message": "etcdserver: request timed out"}),
    "502": answering(502, b"<html>bad gateway</html>", Content_Type="text/html"),
    "503": answering(503, b"no healthy upstream", Content_Type="text/plain"),
    "504": answering(504, STATUS | {"message": "the server was unable to return a response in time"}),
    "reset before the request": cut_before,
    "reset after the request": cut_after,
    "slow drip": dripping(0.02),
    "half a body": half_body,
    "hang": hanging(Flag()),
}
LIES: dict[str, Fault] = {
    "slow": slow(0.4),
    "loses all": answering(404, b"<Error><Code>NoSuchKey</Code></Error>", Content_Type="application/xml"),
    "other bytes": replacing(b"\x00" * 100, "application/octet-stream"),
    "nothing": replacing(b""),
}
SIDES: dict[str, tuple[str, dict[str, Fault]]] = {
    "management API server": ("management", HTTP),
    "workload API server": ("workload", HTTP),
    "object store": ("storage", HTTP | LIES),
}
WHEN: dict[str, Callable[[Request], bool]] = {
    "all requests": lambda _request: True,
    "writes": lambda request: request.writes,
    "every third request": lambda request: request.number % 3 == 0,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """An exhaustive run takes all rows, another one a sample by its seed: each fault once, of one server."""
    chance = random.Random(metafunc.config.option.seed)
    if "when" in metafunc.fixturenames:
        rows = [(side, fault, when) for side, (_, faults) in SIDES.items() for fault in faults for when in WHEN]
        if not metafunc.config.option.exhaustive:
            rows = [chance.choice([row for row in rows if row[1] == fault]) for fault in HTTP | LIES]
        metafunc.parametrize(("side", "fault", "when"), rows)
    elif "of_provider" in metafunc.fixturenames:
        sample = PROVIDER_ROWS if metafunc.config.option.exhaustive else chance.sample(PROVIDER_ROWS, 3)
        metafunc.parametrize("of_provider", sample, ids=" ".join)


def test_addons_end_the_same_once_the_fault_of_a_server_is_gone(
    functions: FaultyFunctions,
    management: Client,
    reference: list[Object],
    side: str,
    fault: str,
    when: str,
) -> None:
    attribute, faults = SIDES[side]
    proxy: Proxy = getattr(functions, attribute)
    failed: list[Request] = []

    @contextmanager
    def faulty(_journey: AddonJourney) -> Iterator[None]:
        def chosen(request: Request) -> Fault | None:
            if not WHEN[when](request):
                return None
            failed.append(request)
            return faults[fault]

        proxy.fault = chosen
        yield
        proxy.heal()

    journey = AddonJourney(functions, management, new_namespace(management))
    assert journey.take(faulty) == reference
    print(f"{len(failed)} requests failed; said: {sorted(set(filter(None, journey.said)))[:6]}")
    if when == "all requests" and fault != "slow":
        assert failed
        assert any(len(text) > 20 for text in journey.said)


# -- faults of the process and its surroundings ----------------------------------------------------------------


@contextmanager
def names_lost(journey: AddonJourney) -> Iterator[None]:
    """DNS does not answer, for the names of both API servers: connections that are open go on."""
    for proxy in (journey.functions.management, journey.functions.workload):
        proxy.fail(cut_before, lambda request: request.number % 2 == 0)  # so that connections have to be opened
    journey.functions.lose_names(True)
    yield
    journey.functions.heal()


@contextmanager
def disk_full(journey: AddonJourney) -> Iterator[None]:
    journey.functions.fill_disk(True)
    yield
    journey.functions.fill_disk(False)


def clock_off(seconds: float) -> FaultOf:
    @contextmanager
    def off(journey: AddonJourney) -> Iterator[None]:
        journey.functions.shift_clock(seconds)
        yield
        journey.functions.shift_clock(0)
        addon = journey.client.find(CLUSTER_ADDON, journey.addons.addon_key)
        for condition in dig(addon, "status.conditions", []):
            ahead = datetime.fromisoformat(condition["lastTransitionTime"]) - datetime.now(UTC)
            journey.said.append(f"{round(ahead.total_seconds() / 3600)} h ahead")

    return off


SURROUNDINGS: dict[str, tuple[FaultOf, str]] = {
    "DNS gone": (names_lost, "name cannot be resolved"),
    "disk full": (disk_full, "cannot write the files of the helm program"),
    "clock an hour ahead": (clock_off(3600), "^1 h ahead"),
    "clock an hour behind": (clock_off(-3600), "^-1 h ahead"),
}
CAPABILITIES = {"more.yaml": '{{ if .Capabilities.APIVersions.Has "v1/Pod" }}# rendered by the program\n{{ end }}'}
"""A template that needs the helm program, which works in a scratch folder."""


@pytest.mark.parametrize("fault", SURROUNDINGS)
def test_addons_end_the_same_once_the_surroundings_are_mended(
    functions: FaultyFunctions, management: Client, reference: list[Object], fault: str
) -> None:
    causes, says = SURROUNDINGS[fault]
    journey = AddonJourney(functions, management, new_namespace(management))
    if fault == "disk full":
        journey.templates = CAPABILITIES
    states = journey.take(causes)
    print(f"said: {sorted(set(filter(None, journey.said)))[:6]}")
    assert states == reference
    assert not says or any(re.search(says, text) for text in journey.said), journey.said


_FILL = """
import resource, sys
from shared.storage import ObjectStore, StorageUnavailable
store, (_, hard) = ObjectStore(sys.argv[1], {}), resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
for absent in (True, False):
    try:
        store.put("k/a", b"x" * 1000, if_absent=absent)
    except StorageUnavailable as error:
        print(error)
print(store.list(), store.get("k/a"))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(store.put("k/a", b"y", if_absent=True), store.get("k/a"))
"""


def test_folder_of_releases_has_no_part_of_an_object_while_its_disk_is_full(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FILL, f"file://{tmp_path}"]
    done = processes.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    first, second, full, mended = done.stdout.splitlines()
    assert "cannot write 'k/a' in folder" in first
    assert "cannot write 'k/a' in folder" in second
    assert (full, mended) == ("() None", "True b'y'")
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a"]


# -- admission webhooks ----------------------------------------------------------------------------------------

HOOKS = {
    kind: Resource("admissionregistration.k8s.io", "v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}
MARK = "example.com/admitted"


@contextmanager
def webhook(client: Client, namespace: str, resources: list[str], folder: Path, behaviour: str) -> Iterator[None]:
    """Registers a webhook that hangs, denies or mutates each write of the resources in the namespace."""
    authority = CertificateAuthority.generate("webhook")
    pair = authority.issue("127.0.0.1", ips=["127.0.0.1"], server=True)
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    ended = Flag()

    def review(request: HttpRequest) -> Response:
        asked = json.loads(request.body)["request"]
        response: Object = {"uid": asked["uid"], "allowed": behaviour == "mutates"}
        if behaviour == "hangs":
            ended.wait(30)
        elif behaviour == "denies":
            response["status"] = {"code": 403, "message": "the policy of this cluster forbids it"}
        else:
            found = dig(asked, "object.metadata.annotations")
            path = "/metadata/annotations/" + MARK.replace("/", "~1")
            value: Any = uuid.uuid4().hex
            patch = [{"op": "add", "path": path, "value": value}]
            if not found:
                patch = [{"op": "add", "path": "/metadata/annotations", "value": {MARK: value}}]
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return Response(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})

    with HttpServer(review, folder) as server:
        kind = "MutatingWebhookConfiguration" if behaviour == "mutates" else "ValidatingWebhookConfiguration"
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": resources}
        hook = {
            "name": "faults.example.com",
            "clientConfig": {
                "url": f"{server.url}/review",
                "caBundle": base64.b64encode(authority.cert_pem).decode(),
            },
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        manifest = {
            "apiVersion": HOOKS[kind].api_version,
            "kind": kind,
            "metadata": {"name": namespace},
            "webhooks": [hook],
        }
        client.create(HOOKS[kind], manifest)
        probe = config_map("probe", namespace=namespace)

        def admitted() -> Object | None:
            try:
                return client.apply(CONFIG_MAP, probe, manager="probe", dry_run=True)
            except ApiError:
                return None

        def is_active() -> bool:
            found = admitted()
            return found is None or MARK in (found["metadata"].get("annotations") or {})

        try:
            until(is_active, "the webhook is called")
            yield
        finally:
            ended.set()
            client.delete(HOOKS[kind], Key("", namespace))
            until(lambda: not is_active(), "the webhook is not called")


@pytest.mark.parametrize("resources", [["configmaps"], ["configmaps", "clusteraddons", "clusteraddons/status"]])
@pytest.mark.parametrize("behaviour", ["hangs", "denies", "mutates"])
def test_addons_end_the_same_once_a_webhook_is_gone(
    functions: FaultyFunctions,
    management: Client,
    reference: list[Object],
    tmp_path: Path,
    behaviour: str,
    resources: list[str],
) -> None:
    """A webhook of the workload cluster, or one of both clusters."""

    def fault(journey: AddonJourney) -> AbstractContextManager[None]:
        return webhook(management, journey.namespace, resources, tmp_path, behaviour)

    journey = AddonJourney(functions, management, new_namespace(management), ignored=MARK)
    assert journey.take(fault) == reference
    print(f"said: {sorted(set(filter(None, journey.said)))[:6]}")
    words = {"hangs": "failed calling webhook|does not answer|gets no requests", "denies": "the policy of this cluster"}
    assert any(re.search(words.get(behaviour, ""), text) for text in journey.said)


# -- objects that are too large --------------------------------------------------------------------------------


def large(namespace: str, what: str) -> list[Object]:
    first = config_map("first", namespace=namespace)
    if what == "a ConfigMap of 2 MiB":
        return [first, config_map("huge", "x" * (2 << 20), namespace)]
    if what == "annotations of 1.2 MiB":
        huge = config_map("huge", namespace=namespace)
        huge["metadata"]["annotations"] = {"a": "x" * (19 << 16)}
        return [first, huge]
    return [config_map(f"m{number}", namespace=namespace) for number in range(6500)]


@pytest.mark.parametrize(
    ("what", "reason", "words"),
    [
        ("a ConfigMap of 2 MiB", "FailedToApplyObjects", "huge"),
        ("annotations of 1.2 MiB", "FailedToApplyObjects", "huge"),
        ("6,500 objects", "TooManyObjects", "6500 objects"),
    ],
)
def test_release_that_is_too_large_is_named_in_a_condition_and_the_next_one_is_applied(
    functions: FaultyFunctions, management: Client, what: str, reason: str, words: str
) -> None:
    namespace = new_namespace(management)
    addons = SweptAddons(management, namespace, by_name(functions.workload), functions.deliver)
    addons.apply_class(write_release(functions.releases, new_version(), large(namespace, what)))
    addons.sweep()
    check_answer(addons.answers[-1])
    condition = addons.condition("HelmChartApplied")
    print(f"{what}: {condition['reason']}: {condition['message'][:300]}")
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert words in condition["message"]
    assert addons.condition("Ready")["status"] == "False"
    applied = set(owned(management, CONFIG_MAP, namespace))
    assert applied == (set() if reason == "TooManyObjects" else {"first"})
    name = write_release(functions.releases, new_version(), [config_map("small", namespace=namespace)])
    addons.apply_class(name)
    addons.until(lambda: addons.ready(name), "Ready", within=60)
    assert set(owned(management, CONFIG_MAP, namespace)) == {"small"}
    assert set(addons.inventory()) == {("ConfigMap", "small")}
    addons.remove()
    addons.until(addons.gone, "the end of the addon")


# -- the journey of a provider ---------------------------------------------------------------------------------

PROVIDER_ROWS = [
    ("management", "429 for an hour"),
    ("management", "503"),
    ("management", "reset after the request"),
    ("management", "half a body"),
    ("source", "429 for a second"),
    ("source", "502"),
    ("source", "reset before the request"),
    ("source", "half a body"),
    ("storage", "503"),
    ("storage", "loses all"),
    ("storage", "other bytes"),
]


@pytest.fixture
def provider(functions: FaultyFunctions, management: Client, clients: Clients) -> Iterator[FakeProvider]:
    world = Providers(management, clients, functions.site, [functions.providers], deliver=functions.deliver)
    world.remove_all()  # other tests leave providers, which the core provider would wait for
    yield FakeProvider(world, functions.providers)
    functions.heal()
    world.remove_all()


def test_provider_ends_the_same_once_the_fault_is_gone(
    functions: FaultyFunctions, provider: FakeProvider, of_provider: tuple[str, str]
) -> None:
    side, fault = of_provider
    proxy: Proxy = getattr(functions, side)
    world, settings = provider.providers, Key(provider.namespace, provider.label)
    uids, said = set(), []
    url = f"http://localhost:{functions.source.port}/made-up/{provider.label}/releases/latest/{provider.kind.file}"
    patch = uuid.uuid4().int % 10**6  # bundles of other rows are in storage already
    for version in (f"v1.0.{patch}", f"v1.1.{patch}"):
        provider.publish(version)
        proxy.fail((HTTP | LIES)[fault])
        provider.apply(version, fetchConfig={"url": url})
        check_answer(provider.reconcile())
        said += [answer.message for _, answer in world.answers] + [
            f"{one['reason']}: {one.get('message')}"
            for one in dig(provider.object, "status.conditions", [])
            if one["status"] == "False"
        ]
        functions.heal()
        provider.until_ready()
        assert (provider.installed, provider.value) == (version, version)
        entries = dig(provider.object, "status.resources")
        assert Counter(entry["status"] for entry in entries) == {"synced": len(entries)}
        assert len({(entry["kind"], entry["name"]) for entry in entries}) == len(entries) == 2
        uids.add(world.client.get(CONFIG_MAP, settings)["metadata"]["uid"])
    print(f"said: {sorted(set(filter(None, said)))[:5]}")
    assert any(len(text) > 20 for text in said)
    assert len(uids) == 1, "the upgrade changes the object, and creates it no second time"
    proxy.fail((HTTP | LIES)[fault])
    provider.delete()
    functions.heal()
    until(lambda: provider.reconcile() and provider.gone, "the end of the provider", details=lambda: world.answers[-4:])
    assert world.client.find(CONFIG_MAP, settings) is None


# -- many objects ----------------------------------------------------------------------------------------------


def test_sweep_over_many_reconciled_objects_sends_nothing_and_takes_bounded_memory(
    functions: FaultyFunctions, management: Client, exhaustive: bool
) -> None:
    """Lists are read page by page, and one request is sent for each page."""
    count, namespace = 10_000 if exhaustive else 2_000, new_namespace(management)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]

    def create(number: int) -> None:
        addon = objects.manifest(
            CLUSTER_ADDON,
            f"cluster-addon-c{number}",
            namespace,
            metadata={"finalizers": [ADDON_FINALIZER]},
            spec={"clusterRef": {"name": f"c{number}"}, "clusterStack": "a-b-1-36-v1", "version": "v1"},
        )
        key = key_of(management.create(CLUSTER_ADDON, addon))
        status = {"ready": True, "release": "a-b-1-36-v1", "conditions": conditions}
        management.patch(CLUSTER_ADDON, key, {"status": status}, subresource="status")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(count)))
    functions.sink.received.clear()
    before, seen = functions.peak(), len(functions.management.seen)
    functions.forget_peak()
    answer = functions.deliver("sweep", Event(type=PING, source="/test", id="1"))
    requests = [one for one in functions.management.seen[seen:] if "clusteraddons" in one.path]
    print(f"{count} objects: {len(requests)} requests, peak memory {functions.peak()} MiB, before {before} MiB")
    assert answer.status in (200, 204), answer
    assert not [event for _, event, _ in functions.sink.received if event.key.namespace == namespace]
    assert len(requests) <= -(-count // 500) + 1, "other tests leave a few"
    assert not [one for one in functions.management.seen[seen:] if one.writes]
