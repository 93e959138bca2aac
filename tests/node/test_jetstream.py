"""The chart with Knative's JetStream broker on a real node: its unmodified controller, ingress and filter, and NATS.

`$CAPI_FUNCTIONS_JETSTREAM` names the folder with the executables natsjs-broker-controller, natsjs-broker-ingress and
natsjs-broker-filter of Knative's eventing-natss, and the folder `config` with the manifests of its broker.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.node import images, knative
from shared.api.resources import DEPLOYMENT, NAMESPACE, SERVICE
from shared.kube import Client, Key, Object, dig
from tests.support.jetstream_broker import FOLDER
from tests.support.node_addons import Addons
from tests.support.node_installation import NAMESPACE as OURS
from tests.support.node_installation import Installation, measured
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

SYSTEM = knative.EVENTING.namespace
NATS = Key("nats-io", "nats")
"""Where the manifests of the broker look for it."""
PODS = {
    "ingress": (SYSTEM, "app=nats-broker-ingress"),
    "filter": (OURS, "eventing.knative.dev/role=filter"),
    "controller": (SYSTEM, "app=natsjetstream-broker-controller"),
    "NATS": (NATS.namespace, "app=nats"),
}


@pytest.fixture(scope="module")
def durable(installed: Installation) -> Installation:
    """Knative Eventing, NATS with files that outlive its pod, the JetStream broker, and our release."""
    if not os.environ.get(FOLDER):
        pytest.skip(f"${FOLDER} names no folder with the programs of Knative's JetStream broker")
    folder = Path(os.environ[FOLDER])
    installed.install_knative(knative.EVENTING)
    with measured("NATS and the JetStream broker Available"):
        programs = [folder / f"natsjs-broker-{name}" for name in ("controller", "ingress", "filter")]
        archives = [images.of_file(f"localhost/{path.name}:1", path, print) for path in programs]
        for archive in (*archives, images.of_program("localhost/nats-server:1", "nats-server", print)):
            installed.node.import_image(archive)
        installed.apply(_nats())
        installed.until_available(NATS.namespace)
        installed.apply(_manifests(folder / "config"))
        installed.until_available(SYSTEM)
    installed.kube("create", "namespace", OURS)
    installed.apply([secret("capi-functions-storage", OURS, **KEYS)])
    with measured("release Ready"):
        broker = {"class": "NatsJetStreamBroker"}
        installed.release(crds={"install": False}, profile="addons", mode="forwarder", broker=broker)
        installed.kube("wait", "--for=condition=Ready", "--all", "-n", OURS, "--timeout=300s", "brokers,triggers")
    return installed


def test_addons_are_applied_while_pods_of_the_broker_are_killed(durable: Installation, workload: Client) -> None:
    installed, addons = durable, Addons(durable, "durable", workload)
    with measured("first addons Ready"):
        addons.wants(kept="1")
    for number, (name, (namespace, selector)) in enumerate(PODS.items(), 2):
        with measured(f"upgrade while the pod of {name} is killed"):
            class_name = addons.offer(kept=str(number))
            installed.delete_pods(namespace, selector)
            addons.choose(class_name)
            addons.until_applied(class_name, kept=str(number))
    with measured("deletion"):
        addons.remove()


def test_accepted_events_wait_for_nats_and_the_filter(durable: Installation, workload: Client) -> None:
    """The functions are gone while an object changes; then all of the broker is killed; the events are delivered."""
    installed, addons = durable, Addons(durable, "waiting", workload)
    addons.wants(kept="1")
    class_name = addons.offer(kept="2")
    _scale(installed, OURS, "addon-apply", 0)
    addons.choose(class_name)
    for namespace, selector in PODS.values():
        installed.delete_pods(namespace, selector)
    _scale(installed, OURS, "addon-apply", 1)
    with measured("upgrade after the end of all of the broker"):
        addons.until_applied(class_name, kept="2")
    addons.remove()


def _scale(installed: Installation, namespace: str, name: str, replicas: int) -> None:
    installed.client.patch(DEPLOYMENT, Key(namespace, name), {"spec": {"replicas": replicas}})

    def scaled() -> bool:
        status = installed.client.get(DEPLOYMENT, Key(namespace, name)).get("status", {})
        return dig(status, "replicas", 0) == replicas

    until(scaled, f"{name} has {replicas} replicas")


def _manifests(config: Path) -> list[Object]:
    def image(match: re.Match[str]) -> str:
        return f"localhost/natsjs-broker-{'controller' if match[1] == 'broker' else match[1]}:1"

    text = "\n---\n".join(path.read_text() for path in sorted(config.glob("*.yaml")))
    return [obj for obj in yaml.safe_load_all(re.sub(r"ko://\S+/cmd/(\w+)", image, text)) if obj]


def _nats() -> list[Object]:
    labels = {"app": "nats"}
    container: dict[str, Any] = {
        "name": "nats",
        "image": "localhost/nats-server:1",
        "args": ["--jetstream", "--store_dir=/data"],
        "ports": [{"containerPort": 4222}],
        "readinessProbe": {"tcpSocket": {"port": 4222}, "periodSeconds": 1},
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    # The node has no storage class.
    data = {"name": "data", "hostPath": {"path": "/var/lib/nats", "type": "DirectoryOrCreate"}}
    spec = {
        "selector": {"matchLabels": labels},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [data]}},
    }
    ports = [{"port": 4222}]
    return [
        manifest(NAMESPACE, NATS.namespace),
        manifest(DEPLOYMENT, NATS.name, NATS.namespace, spec=spec),
        manifest(SERVICE, NATS.name, NATS.namespace, spec={"selector": labels, "ports": ports}),
    ]
