"""No input from outside needs much more memory than its limits say. Each attack runs in a process of its own.

The bounds are generous: an attack needs half of its bound, and needed much more than it before the limit existed.
"""

from __future__ import annotations

import time

import pytest

from shared.clients import Clients
from shared.kube.connect import KubeconfigError
from tests.support.memory import needed_mib

HEADERS = str(dict.fromkeys(("ce-id", "ce-type", "ce-source"), "x") | {"ce-specversion": "1.0"})
KUBECONFIG = """
import base64
from tests.support.hostile import kubeconfig
def encoded(data): return base64.b64encode(data).decode()
"""


@pytest.mark.parametrize(
    ("values", "most", "error"),
    [("[]," * 3_000_000, 40, "InputTooLarge"), ("{}," * 5_000_000, 40, "InputTooLarge"), ("[]," * 280_000, 64, "")],
    ids=["lists", "mappings", "as many as are accepted"],
)
def test_stored_record_unpacks_within_limits(values: str, most: int, error: str) -> None:
    """A record of 11 KB has become 199 MB."""
    needed, found = needed_mib(f"""
        import base64, gzip
        from shared.addons.secret_record import unpack
        values = {values[:3].encode()!r} * {len(values) // 3}
        record = base64.b64encode(gzip.compress(b"[" + values + b"1]", 9)).decode()
        measured(lambda: unpack(record))
    """)
    assert found.startswith(error)
    assert needed < most


def test_stored_record_of_zeros_is_not_unpacked() -> None:
    needed, found = needed_mib("""
        import base64, gzip
        from shared.addons.secret_record import unpack
        record = base64.b64encode(gzip.compress(b" " * (1 << 29), 9)).decode()
        measured(lambda: unpack(record))
    """)
    assert "more than 16 MiB" in found
    assert needed < 40


@pytest.mark.parametrize("size", [512, 255])
def test_kubeconfig_of_empty_lists_is_refused(size: int) -> None:
    """It has taken 131 MB."""
    needed, found = needed_mib(f"""
        from shared.kube import connect
        data = b"[" + b"[]," * ({size} * 1024 // 3) + b"[]]"
        measured(lambda: connect.inline_credentials(data))
    """)
    assert found.startswith("KubeconfigError: kubeconfig is")
    assert needed < 20


def test_kubeconfig_of_aliases_is_refused() -> None:
    """It has taken 60 MB."""
    needed, found = needed_mib("""
        from shared.kube import connect
        data = b"x: &a [" + b"{}," * 900 + b"{}]\\ny: [" + b"*a," * 1000 + b"*a]"
        measured(lambda: connect.inline_credentials(data))
    """)
    assert found.startswith("KubeconfigError: kubeconfig is")
    assert needed < 20


def test_invalid_kubeconfig_is_parsed_once() -> None:
    clients, data = Clients(), b"[" + b"[]," * 60_000 + b"[]]"
    began = time.thread_time()
    for _ in range(2_000):
        with pytest.raises(KubeconfigError, match="not valid YAML"):
            clients.workload(data)
    assert time.thread_time() - began < 10  # parsing it each time takes 40 s and more


@pytest.mark.parametrize("field", ["certificate-authority-data", "client-certificate-data", "client-key-data"])
def test_large_certificates_are_refused(field: str) -> None:
    part = "user" if field.startswith("client") else "cluster"
    needed, found = needed_mib(f"""
        {KUBECONFIG.strip().replace(chr(10), chr(10) + " " * 8)}
        from shared.kube import connect
        fields = {{{field!r}: encoded(b"x" * 150_000)}}
        user, cluster = (fields, {{}}) if {part!r} == "user" else (None, fields)
        data = kubeconfig("https://127.0.0.1", user, **cluster)
        measured(lambda: connect.workload(data))
    """)
    assert f"{field} is larger than 64 KiB" in found
    assert needed < 20


def test_certificates_of_many_workload_clusters_stay_within_a_limit() -> None:
    """A bundle of 542 KB has taken 5.3 MiB for each of 512 workload clusters."""
    needed, found = needed_mib(f"""
        {KUBECONFIG.strip().replace(chr(10), chr(10) + " " * 8)}
        import datetime
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from shared.clients import Clients
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        bundle = b""
        for number in range(110):
            name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{{number:060}}")])
            builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            builder = builder.serial_number(number + 1).not_valid_before(now)
            signed = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
            bundle += signed.public_bytes(serialization.Encoding.PEM)
        assert 60_000 < len(bundle) < 65_000, len(bundle)
        clients = Clients()
        def attack():
            for number in range(400):
                ca = {{"certificate-authority-data": encoded(bundle)}}
                clients.workload(kubeconfig(f"https://127.0.0.1:{{number + 1}}", **ca))
        measured(attack)
    """)
    assert found == ""
    assert needed < 150


def test_kinds_of_many_servers_stay_within_a_limit() -> None:
    """Ten thousand kinds take 15 MiB, for each of 512 workload clusters."""
    needed, found = needed_mib("""
        import json
        from shared.clients import Clients
        from tests.support.hostile import HostileServer, answering, kubeconfig
        def served(number):
            names = [f"{number}r{n}" for n in range(9000)]
            kinds = [{"resource": name, "responseKind": {"kind": name}, "scope": "Cluster"} for name in names]
            versions = [{"version": "v1", "resources": kinds}]
            group = {"metadata": {"name": f"g{number}.example.com"}, "versions": versions}
            return answering(json.dumps({"kind": "APIGroupDiscoveryList", "items": [group]}).encode())
        clients = Clients()
        def attack():
            for number in range(20):
                def behaviour(path, closing, number=number):
                    empty = answering(b'{"kind": "APIGroupDiscoveryList", "items": []}')
                    return (served(number) if path.endswith("/apis") or "/apis " in path else empty)(path, closing)
                with HostileServer(behaviour) as server:
                    assert len(clients.workload(kubeconfig(server.url)).discovery.served()) > 8000
        measured(attack)
    """)
    assert found == ""
    assert needed < 90


def test_answer_of_a_workload_server_is_weighed() -> None:
    needed, found = needed_mib("""
        from shared.kube import connect
        from tests.support.hostile import HostileServer, answering, kubeconfig
        body = b'{"items":[' + b"[]," * 1_000_000 + b"[]]}"
        with HostileServer(answering(body)) as server:
            measured(lambda: connect.workload(kubeconfig(server.url)).request("GET", "/version"))
    """)
    assert found.startswith("TooLarge: GET /version: the response has")
    assert needed < 40


@pytest.mark.parametrize("before", ["", '"data": ', '"x": '], ids=["binary", "structured", "structured elsewhere"])
def test_event_of_empty_lists_is_refused(before: str) -> None:
    """A body of 8 MiB has taken 208 MB in a forwarder that has 256 MiB."""
    needed, found = needed_mib(f"""
        import cloudevents.http
        from shared.event import from_http
        values = b'[' + b"[]," * ((8 << 20) // 3 - 100) + b"[]]"
        event = b'{{"specversion": "1.0", "id": "1", "type": "t", "source": "s", {before}' + values + b"}}"
        headers = {{"content-type": "application/cloudevents+json"}} if {before!r} else {HEADERS}
        measured(lambda: from_http(headers, event if {before!r} else values))
    """)
    assert found.startswith("EventError: the body has")
    assert needed < 40


def test_threads_share_the_memory_for_events() -> None:
    """Each event alone is accepted; eight at a time would need four times the budget."""
    needed, found = needed_mib(f"""
        import time
        from concurrent.futures import ThreadPoolExecutor
        import cloudevents.http
        from shared import memory_budget
        from shared.event import from_http
        memory_budget.BUDGET.size = 96 << 20
        body = b'{{"a":[' + b"{{}}," * 280_000 + b"1]}}"
        def handle(_):
            event = from_http({HEADERS}, body)
            time.sleep(0.3)
            return len(event.data["a"])
        def attack():
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(handle, range(16))) == [280_001] * 16
        measured(attack)
        assert memory_budget.BUDGET.used == 0
    """)
    assert found == ""
    assert needed < 130


def test_bodies_that_arrive_at_once_share_the_memory_of_the_ingress() -> None:
    needed, found = needed_mib(f"""
        import socket, threading, time
        import cloudevents.http
        from events.ingress import Ingress
        from shared import memory_budget
        memory_budget.BUDGET.__init__(96 << 20, 1.0)
        ingress = Ingress(lambda event: None)
        ingress.start()
        head = "".join(f"{{name}}: {{value}}\\r\\n" for name, value in {HEADERS}.items())
        def send():
            with socket.create_connection(("127.0.0.1", ingress.port)) as connection:
                connection.settimeout(20)
                try:
                    connection.sendall(f"POST / HTTP/1.1\\r\\n{{head}}Content-Length: {{8 << 20}}\\r\\n\\r\\n".encode())
                    for _ in range(127):
                        connection.sendall(b" " * 65536)
                    time.sleep(2)
                except OSError:
                    pass
        def attack():
            threads = [threading.Thread(target=send) for _ in range(60)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        measured(attack)
        ingress.stop()
    """)
    assert found == ""
    assert needed < 200


@pytest.mark.parametrize(
    ("text", "most", "error"),
    [
        ('b"[" + b"[]," * 400_000 + b"[]]"', 200, "YAMLError: a document has more than 200000 values"),
        ('b"- a\\n" * 400_000', 200, "YAMLError: a document has more than 200000 values"),
        ('b"[" + b"[]," * 190_000 + b"[]]"', 250, ""),
    ],
)
def test_yaml_is_composed_within_limits(text: str, most: int, error: str) -> None:
    needed, found = needed_mib(f"""
        from shared import bounded_yaml
        text = {text}
        measured(lambda: bounded_yaml.load(text))
    """)
    assert found == error
    assert needed < most


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("manifests.parse([Manifest(str(n), text) for n in range(20)], default_namespace='a')", id="chart"),
        pytest.param("raise_problems(parse_all([Source(REF, {str(n): text.encode() for n in range(20)})]))", id="set"),
        pytest.param("[values.parse(text, 'a', copier) for n in range(20)]", id="values"),
    ],
)
def test_aliases_in_many_texts_are_counted_together(use: str) -> None:
    needed, found = needed_mib(f"""
        from functions.cluster_resource_set.sources import Source, SourceError, parse_all
        from functions.helm_release_proxy import values
        from shared import bounded_yaml, manifests
        from shared.api.resource_set import SourceRef
        from shared.manifests import Manifest
        REF = SourceRef("ConfigMap", "a")
        head = "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {{name: a}}\\n"
        text = head + "x: &a [" + "{{}}," * 900 + "{{}}]\\ny: [" + "*a," * 400 + "*a]\\n"
        copier = bounded_yaml.Copier()
        def raise_problems(parsed):
            for problem in parsed[1].values():
                raise SourceError(problem)
        measured(lambda: {use})
    """)
    assert "the texts have more than 1000000 values together" in found
    assert needed < 150
