"""Checks this machine for the requirements of a local run, and shows how to get missing ones."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from infra.local import helm
from infra.local_control_plane.binaries import BinaryNotFound, locate
from infra.local_control_plane.cache import cache_directory
from infra.node import requirements
from shared.charts import HelmMissing
from shared.sandbox import confine


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    `state` is `ok`, `note` (something is missing, but local runs work), or `missing` (local runs do not work).
    """

    what: str
    state: Literal["ok", "note", "missing"]
    detail: str


def examine() -> Iterator[CheckResult]:
    """Runs all checks."""
    for check in (_platform, _python, _packages, *(_binary(name) for name in ("etcd", "kube-apiserver")), _helm):
        yield check()
    yield _sandbox()
    yield _optional("kubectl", "useful to inspect the clusters; nothing needs it")
    yield _node()
    yield _optional("docker-registry", "tests with a registry are skipped (Debian: apt-get install docker-registry)")
    yield _loopback()


def _platform() -> CheckResult:
    if sys.platform == "linux":
        return CheckResult("platform", "ok", sys.platform)
    return CheckResult("platform", "missing", f"{sys.platform}: local control planes run on Linux only")


def _python() -> CheckResult:
    return CheckResult("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def _packages() -> CheckResult:
    absent = [name for name in ("moto", "flask_cors", "helm_python") if importlib.util.find_spec(name) is None]
    if not absent:
        return CheckResult("packages", "ok", "all of capi-functions[local]")
    return CheckResult("packages", "missing", f"{', '.join(absent)}; pip install 'capi-functions[local]'")


def _binary(name: str) -> Callable[[], CheckResult]:
    def check() -> CheckResult:
        try:
            path = locate([name], progress=lambda _line: None, get=False)[name]
        except BinaryNotFound:
            return CheckResult(name, "note", f"not installed; {_install_hint('the first run')}")
        return CheckResult(name, "ok", str(path))

    return check


def _helm() -> CheckResult:
    """Checks the helm program. Reports `missing` only if $HELM is wrong, because few charts need the program."""
    try:
        found = helm.present()
    except HelmMissing as error:
        return CheckResult("helm", "missing", str(error))
    if found:
        return CheckResult("helm", "ok", str(found))
    return CheckResult("helm", "note", f"not installed; {_install_hint('the first chart that reads from its cluster')}")


def _sandbox() -> CheckResult:
    """Checks the features of the kernel that confine workers."""
    lacking = confine.missing()
    return CheckResult("sandbox", "note" if lacking else "ok", "; ".join(lacking) or "seccomp and Landlock")


def _install_hint(need: str) -> str:
    """Returns how a missing executable is installed."""
    build = f"builds it into {cache_directory()}" if _has_go() else "needs Go to build it"
    return f"{need} downloads it; without network access it {build}"


def _has_go() -> bool:
    """Returns whether `go` is in PATH and runs."""
    go = shutil.which("go")
    return bool(go and subprocess.run([go, "version"], capture_output=True, check=False).returncode == 0)


def _optional(name: str, use: str) -> CheckResult:
    path = shutil.which(name)
    return CheckResult(name, "ok", path) if path else CheckResult(name, "note", f"not found; {use}")


def _node() -> CheckResult:
    """Checks whether tests can run the image and the manifests in pods."""
    problems = requirements.missing()
    if not problems:
        return CheckResult("real node", "ok", "`make test-node` can run one")
    return CheckResult("real node", "note", f"tests in pods are skipped: {' '.join(problems)}")


def _loopback() -> CheckResult:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return CheckResult("loopback", "ok", "127.0.0.1 can be listened on")
    except OSError as error:
        return CheckResult("loopback", "missing", f"cannot listen on 127.0.0.1: {error}")
