"""What a Broker takes before a Trigger is Ready, that Trigger never delivers: the forwarder sends it again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("stuck", [False, True], ids=["all become Ready", "one stays behind"])
def test_what_triggers_missed_before_they_were_ready_is_sent_again(tmp_path: Path, stuck: bool) -> None:
    log = tmp_path / "log"
    with running_plane(tmp_path / "plane") as plane, connected(plane) as client, EventReceiver() as receiver:
        knative_broker.install(client)
        declared = catalog.triggers()["cluster"]
        first, *others = [client.create(TRIGGER, each) for each in eventing.triggers_of(declared, "cluster", NAMESPACE)]
        report_ready(client, TRIGGER, first)
        assert len(others) >= 2
        client.create(CLUSTER, manifest(CLUSTER, "one", "default", spec={"topology": {"classRef": {"name": "c"}}}))
        account = tmp_path / "kubeconfig"
        generated = PROJECT / "infra/forwarder/forwarder.yaml"
        kubeconfig_of(client, local_control_plane.kubeconfig(plane), generated, account)

        def sent() -> int:
            return len([event for _, event, _ in receiver.received if event.kind == CLUSTER.kind])

        command = [sys.executable, "-m", "infra.forwarder", f"--lease={NAMESPACE}/forwarder", f"--sink={receiver.url}"]
        with log.open("wb") as output:
            process = processes.start(command, env=os.environ | {"KUBECONFIG": str(account)}, stderr=output)
        try:
            until(lambda: sent() == 1, details=logged(log))
            until(lambda: "these Triggers do not deliver yet: " in log.read_text(), details=logged(log))
            for trigger in others[stuck:]:
                report_ready(client, TRIGGER, trigger)
            until(lambda: sent() > 1, details=logged(log))
            if stuck:
                before = sent()
                report_ready(client, TRIGGER, others[0])
                until(lambda: sent() > before, details=logged(log))
        finally:
            process.terminate()
            assert process.wait(HANGS) == 0
    names = ", ".join(sorted(trigger["metadata"]["name"] for trigger in others))
    assert f"these Triggers do not deliver yet: {names}" in log.read_text()
    assert log.read_text().count("Triggers deliver now") > stuck
