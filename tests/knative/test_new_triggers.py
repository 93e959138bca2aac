"""What a Broker takes before a Trigger delivers, that Trigger never delivers: the forwarder sends it again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from functions import catalog
from infra import local_control_plane
from infra.generate import eventing
from infra.generate.__main__ import PROJECT
from shared.api.resources import CLUSTER
from shared.settings import NAMESPACE
from tests.support import knative_broker, processes
from tests.support.accounts import kubeconfig_of
from tests.support.event_receiver import EventReceiver
from tests.support.knative_broker import TRIGGER, report_ready
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.until import HANGS, logged, until


def test_what_a_new_trigger_may_have_missed_is_sent_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_plane(tmp_path / "plane") as plane, connected(plane) as client, EventReceiver() as receiver:
        knative_broker.install(client)
        triggers = [*eventing.triggers_of(catalog.triggers()["cluster"], "cluster")]
        for trigger in triggers:
            report_ready(client, TRIGGER, client.create(TRIGGER, trigger))
        client.create(TRIGGER, triggers[0] | {"metadata": {"name": "added", "namespace": NAMESPACE}})
        client.create(CLUSTER, manifest(CLUSTER, "one", "default", spec={"topology": {"classRef": {"name": "c"}}}))
        account = tmp_path / "kubeconfig"
        generated = PROJECT / "infra/manifests/forwarder/forwarder.yaml"
        kubeconfig_of(client, local_control_plane.kubeconfig(plane), generated, account)

        def sent() -> int:
            return len([event for _, event, _ in receiver.received if event.kind == CLUSTER.kind])

        command = [sys.executable, "-m", "infra.forwarder", f"--lease={NAMESPACE}/forwarder", f"--sink={receiver.url}"]
        with log.open("wb") as output:
            process = processes.start(command, env=os.environ | {"KUBECONFIG": str(account)}, stderr=output)
        try:
            until(lambda: sent() == 1, details=logged(log))
            until(lambda: sent() > 1, details=logged(log))
        finally:
            process.terminate()
            assert process.wait(HANGS) == 0
    assert "objects that are not reconciled are sent again, because these Triggers are new: added\n" in log.read_text()
