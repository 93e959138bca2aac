"""The Go modules in infra/binaries, which pin the versions of executables and of the sources that tests need."""

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.local_control_plane.cache import Progress, cache_directory

FOLDER = Path(__file__).parents[1] / "binaries"


class SourceNotFound(Exception):
    """The source of a module cannot be downloaded; the message contains the output of `go`."""


@dataclass(frozen=True)
class Module:
    """A directory of `FOLDER` with a go.mod.

    Attributes:
        directory: The name of the directory.
        module: The Go module whose pinned version is the version of the executables.
        packages: Import paths of the executables' main packages by name.
        stamp: The package with the variables gitVersion, gitMajor and gitMinor, if the executables have them.
        variable: The variable that holds the version, if the executables have one.
        on_demand: Whether only real nodes (infra/node) and benchmarks need the executables.
    """

    directory: str
    module: str
    packages: Mapping[str, str]
    stamp: str = ""
    variable: str = ""
    on_demand: bool = False

    @property
    def path(self) -> Path:
        """The path of the directory."""
        return FOLDER / self.directory

    @property
    def version(self) -> str:
        """The version of `module` in go.mod, such as "v1.36.3"."""
        return self.pinned(self.module)

    def pinned(self, module: str) -> str:
        """Returns the version of `module` in go.mod. Raises ValueError if go.mod does not require it."""
        if not (found := self.requirement(module)):
            raise ValueError(f"{self.path / 'go.mod'} does not require {module}")
        return found

    def requirement(self, module: str) -> str:
        """Returns the version of `module` in go.mod; "" if go.mod does not require it."""
        found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", (self.path / "go.mod").read_text(), re.M)
        return found[1] if found else ""

    @property
    def cache(self) -> Path:
        """The directory of the built executables; it depends on the content of go.mod and of our own sources."""
        sources = [self.path / "go.mod", *sorted(self.path.rglob("*.go"))]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
        return cache_directory() / "binaries" / self.directory / f"{self.version}-{digest}"

    @property
    def linker_flags(self) -> str:
        """The value of `-ldflags`."""
        flags = ["-s", "-w"]
        if self.stamp:
            # Without these flags the API server reports v0.0.0, which clients refuse.
            major, minor = self.version.removeprefix("v").split(".")[:2]
            for name, value in (("gitVersion", self.version), ("gitMajor", major), ("gitMinor", minor)):
                flags += ["-X", f"{self.stamp}.{name}={value}"]
        if self.variable:
            flags += ["-X", f"{self.variable}={self.version}"]
        return " ".join(flags)

    def source(self, module: str, progress: Progress) -> Path:
        """Returns the read-only folder with the source of `module` in its pinned version, downloaded if necessary.

        Raises SourceNotFound.
        """
        wanted = f"{module}@{self.pinned(module)}"
        progress(f"looking for the source of {wanted}")
        done = self._go(wanted, "mod", "download", "-json", wanted)
        answer = json.loads(done.stdout or "{}")
        if "Dir" in answer:
            return Path(answer["Dir"])
        # A proxy may have the files of a version without its date, which only the command above requests.
        listed = self._go(wanted, "list", "-find", "-f", "{{.Module.Dir}}", f"{module}/...")
        if listed.returncode or not listed.stdout:
            raise SourceNotFound(f"{wanted} cannot be downloaded: {answer.get('Error') or done.stderr.strip()}")
        return Path(listed.stdout.splitlines()[0])

    def _go(self, wanted: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["go", *arguments]
        try:
            return subprocess.run(
                command, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise SourceNotFound(f"Go is needed to download {wanted}: {error}") from error


_CLUSTER_API = "sigs.k8s.io/cluster-api"
_EVENTING = "knative.dev/eventing"
_SERVING = "knative.dev/serving"
_NATS = "github.com/nats-io/nats-server/v2"
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
MANAGERS = (
    ("cluster-api-manager", _CLUSTER_API, "core"),
    ("bootstrap-kubeadm-manager", _CLUSTER_API, "bootstrap/kubeadm"),
    ("control-plane-kubeadm-manager", _CLUSTER_API, "controlplane/kubeadm"),
    ("infrastructure-docker-manager", f"{_CLUSTER_API}/test", "infrastructure/docker"),
)
"""Managers, which are named after the label of their provider: the Go module, and the package in it.

Each has a directory of its own, so that its version can change alone.
"""
MODULES = (
    Module("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "kubernetes",
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES},
        stamp="k8s.io/component-base/version",
    ),
    Module("kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module(
        "knative",
        _EVENTING,
        {
            "apiserver_receive_adapter": f"{_EVENTING}/cmd/apiserver_receive_adapter",
            "ingress": f"{_EVENTING}/cmd/broker/ingress",
            "filter": f"{_EVENTING}/cmd/broker/filter",
            "channel_dispatcher": f"{_EVENTING}/cmd/in_memory/channel_dispatcher",
        },
    ),
    Module(
        "kubelet",
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
        stamp="k8s.io/component-base/version",
        on_demand=True,
    ),
    Module("node", "github.com/coredns/coredns", {"coredns": "./coredns", "pause": "./pause"}, on_demand=True),
    Module(
        "knative-controllers",
        _EVENTING,
        {
            "eventing-controller": f"{_EVENTING}/cmd/controller",
            "eventing-webhook": f"{_EVENTING}/cmd/webhook",
            "mtchannel_broker": f"{_EVENTING}/cmd/mtchannel_broker",
            "channel_controller": f"{_EVENTING}/cmd/in_memory/channel_controller",
            "mtping": f"{_EVENTING}/cmd/mtping",
        },
        on_demand=True,
    ),
    Module("knative-serving", _SERVING, {"serving-webhook": f"{_SERVING}/cmd/webhook"}),
    Module(
        "knative-serving-controllers",
        _SERVING,
        {
            "activator": f"{_SERVING}/cmd/activator",
            "autoscaler": f"{_SERVING}/cmd/autoscaler",
            "serving-controller": f"{_SERVING}/cmd/controller",
            "queue": f"{_SERVING}/cmd/queue",
        },
        on_demand=True,
    ),
    Module("nats", _NATS, {"nats-server": _NATS}, on_demand=True),
    Module("envtest", "sigs.k8s.io/controller-runtime", {"envtest-planes": "./planes"}, on_demand=True),
    Module("kind", "sigs.k8s.io/kind", {"kind": "sigs.k8s.io/kind"}),
    Module(
        "helm",
        "helm.sh/helm/v4",
        {"helm": "helm.sh/helm/v4/cmd/helm"},
        variable="helm.sh/helm/v4/internal/version.version",  # charts read it
    ),
    Module(
        "capi-1.14",
        _CLUSTER_API,
        {"clusterctl": f"{_CLUSTER_API}/cmd/clusterctl"},
        stamp=f"{_CLUSTER_API}/version",
    ),
    *(
        Module(name, module, {name: f"{module}/{package}"}, stamp=f"{_CLUSTER_API}/version")
        for name, module, package in MANAGERS
    ),
    Module("capi-1.13", _CLUSTER_API, {}),
    # The oldest supported release, and the newest release that serves v1beta1 only.
    Module("capi-1.7", _CLUSTER_API, {}),
    Module("capi-1.10", _CLUSTER_API, {}),
)


def module_of(name: str) -> Module:
    """Returns the module that builds the executable `name`. Raises ValueError if there is none."""
    for module in MODULES:
        if name in module.packages:
            return module
    raise ValueError(f"{name} is not an executable that can be located")
