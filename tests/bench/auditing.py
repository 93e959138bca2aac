"""Counts the requests of functions and forwarder by the audit log, without those of controllers."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from infra import local_control_plane
from infra.local_control_plane import controllers
from infra.local_control_plane.binaries import locate
from shared.kube import Client
from shared.kube.connect import inline_credentials

from .counting import Requests

_OURS = "capi-functions"
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
_VERBS = {"update": "PUT", "create": "POST", "deletecollection": "DELETE"}


@dataclass
class Plane:
    """A control plane with controllers in `directory`; the requests of `client` are not counted."""

    directory: Path
    client: Client = field(init=False)

    def start(self) -> None:
        self.directory.mkdir(parents=True)
        binaries = locate(["etcd", "kube-apiserver", *controllers.NAMES], progress=print, archives=())
        binaries["kube-apiserver"] = self._audited(binaries["kube-apiserver"])
        local_control_plane.start(self.directory, owner=os.getpid(), timeout=120, binaries=binaries, controllers=True)
        self.client = Client(inline_credentials(self.kubeconfig.read_bytes()), user_agent="bench")

    def stop(self) -> None:
        local_control_plane.stop(self.directory)

    @property
    def kubeconfig(self) -> Path:
        return local_control_plane.kubeconfig(self.directory)

    def requests(self) -> Requests:
        """Returns the requests so far, without watches."""
        counts: Requests = Counter()
        with self._log.open() as log:
            for line in log:
                if not line.endswith("\n"):
                    break  # not yet complete
                event = json.loads(line)
                verb, what = event["verb"], event.get("objectRef", {})
                if event.get("userAgent") == _OURS and verb != "watch":
                    resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
                    counts[_VERBS.get(verb, verb.upper()), resource or "discovery"] += 1
        return counts

    @property
    def _log(self) -> Path:
        return self.directory / "audit.log"

    def _audited(self, apiserver: Path) -> Path:
        """Starts the API server with an audit log."""
        policy, wrapper = self.directory / "audit.json", self.directory / "audited-apiserver"
        policy.write_text(json.dumps(_POLICY))
        wrapper.write_text(
            f'#!/bin/sh\nexec "{apiserver}" "$@" --audit-policy-file="{policy}" --audit-log-path="{self._log}"\n'
        )
        wrapper.chmod(0o755)
        return wrapper
