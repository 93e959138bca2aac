"""A container engine with a node image for kind, on machines without an image registry.

The engine is podman with a storage of its own, whose containers have no resource limits that this machine forbids.
The image is a control plane without a kubelet: busybox, etcd and kube-apiserver, with a script in the place of kubeadm.
kind creates a cluster of it by its usual calls, from the container to `kubeadm init` and the kubeconfig.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from infra.local_control_plane.binaries import locate
from infra.node import debian
from shared.certificates import CertificateAuthority, service_account_keys
from tests.support.ports import exclusive

IMAGE = "localhost/kind-node-for-tests:v1.36.3"

_PREFIX = "capi-functions-kind-"
_PACKAGES = {"runc": "usr/sbin/runc", "busybox-static": "bin/busybox"}
"""Packages of Debian that are downloaded where this machine lacks them, not installed; a file of each."""
_MODULES = Path("/lib/modules")
"""kind mounts it in its nodes; a machine that is a container may lack it."""
_APPLETS = ("sh", "cat", "cp", "echo", "hostname", "kill", "mkdir", "sed", "sleep")

_INIT = """#!/bin/sh
trap exit TERM
(sleep 900; kill 1) &  # what a killed run leaves ends by itself
echo "Reached target Multi-User System."
while [ ! -e /etc/kubernetes/admin.conf ]; do sleep 0.1; done
cd /baked
etcd --data-dir=/var/etcd --unsafe-no-fsync >/var/etcd.log 2>&1 </dev/null &
exec kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --authorization-mode=RBAC \\
  --client-ca-file=/etc/kubernetes/pki/ca.crt --tls-cert-file=server.crt --tls-private-key-file=server.key \\
  --service-account-issuer=https://kubernetes --service-account-key-file=sa.pub \\
  --service-account-signing-key-file=sa.key --service-cluster-ip-range=10.96.0.0/16 >/var/apiserver.log 2>&1
"""

_KUBEADM = """#!/bin/sh
sed "s|127.0.0.1|$(hostname)|" /baked/admin.conf >/etc/kubernetes/admin.conf
"""

_OCI_RUNTIME = """#!/usr/bin/python3
import json, os, sys
options = dict(zip(sys.argv, sys.argv[1:]))
for option, suffix in (("--bundle", "/config.json"), ("--process", "")):
    if option in options and ("create" in sys.argv or "exec" in sys.argv):
        with open(options[option] + suffix) as file:
            config = json.load(file)
        config.get("process", config).pop("rlimits", None)  # raising them needs CAP_SYS_RESOURCE
        with open(options[option] + suffix, "w") as file:
            json.dump(config, file)
os.execv("{runc}", ["runc", *sys.argv[1:]])
"""


class NoEngine(Exception):
    """This machine cannot run containers; the message says why."""


@contextmanager
def podman(*, image: bool = True) -> Iterator[Path]:
    """Makes podman the engine of kind in the block, with the node image or no image; yields the folder of its storage.

    Waits for other runs of the tests, since all podmans of a machine have their networks on the same bridges. Skips the
    test, with the reason, where podman cannot run containers.
    """
    with exclusive("podman"), _storage() as folder, pytest.MonkeyPatch.context() as patch:
        try:
            _configure(folder, patch.setenv)
            if image:
                _build_image(folder)
        except NoEngine as error:
            pytest.skip(str(error))
        yield folder


@contextmanager
def _storage() -> Iterator[Path]:
    """Yields a folder for podman's storage, and removes it with all containers; also those of runs that were killed.

    A container that is left keeps its port: the firewall forwards that to an address where nobody answers. The caller
    is the only one who uses podman for tests.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove(left)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with_modules = _MODULES.exists()
    try:
        yield folder
    finally:
        _remove(folder)
        if not with_modules and _MODULES.exists():
            _MODULES.rmdir()


def _remove(folder: Path) -> None:
    if (folder / "storage.conf").exists():
        with pytest.MonkeyPatch.context() as patch:
            _use(folder, patch.setenv)
            # A bridge that is left keeps its subnet: kind gives up after five subnets that are in use.
            cleanup = (("rm", "-af", "-t0"), ("network", "prune", "-f"), ("volume", "prune", "-f"), ("rmi", "-af"))
            for arguments in cleanup:
                subprocess.run(["podman", *arguments], check=False, capture_output=True)  # may not run here at all
        subprocess.run(["umount", folder / "graph/overlay"], check=False, capture_output=True)
    shutil.rmtree(folder)


def _configure(folder: Path, set_variable: Callable[[str, str], None]) -> None:
    """Makes a podman with its storage in `folder` the engine of kind, by variables of the environment.

    Raises `NoEngine`.
    """
    missing = [name for name in ("podman", "iptables") if not shutil.which(name)]
    if missing or os.geteuid():
        what = f"{', '.join(missing)} of Debian" if missing else "root"
        raise NoEngine(f"the kind program needs docker, or podman with {what}")
    _MODULES.mkdir(exist_ok=True)
    runtime = folder / "oci-runtime"
    runtime.write_text(_OCI_RUNTIME.replace("{runc}", str(_program("runc"))))
    runtime.chmod(0o755)
    (folder / "containers.conf").write_text(
        f'[network]\nnetwork_config_dir = "{folder / "networks"}"\n'
        f'[engine]\nruntime = "runc"\n[engine.runtimes]\nrunc = ["{runtime}"]\n'
    )
    # The run root has sockets, whose paths must be short.
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder / "graph"}"\nrunroot = "{folder / "run"}"\n'
    )
    _use(folder, set_variable)
    set_variable("KIND_EXPERIMENTAL_PROVIDER", "podman")


def _use(folder: Path, set_variable: Callable[[str, str], None]) -> None:
    set_variable("CONTAINERS_CONF", str(folder / "containers.conf"))
    set_variable("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))


def _program(package: str) -> Path:
    """Returns the program of a package in `_PACKAGES`. Raises `NoEngine`."""
    try:
        unpacked = debian.unpacked(print, _PACKAGES)
    except debian.PackagesNotFound as error:
        raise NoEngine(str(error)) from error
    own = Path("/", _PACKAGES[package])
    return own if own.exists() or unpacked is None else unpacked / _PACKAGES[package]


def _build_image(folder: Path) -> None:
    """Builds the node image. Raises `NoEngine` if its containers do not run here."""
    root = folder / "root"
    binaries = locate(["etcd", "kube-apiserver"], progress=lambda _line: None)
    for name in ("bin", "kind/manifests", "etc/kubernetes/pki", "baked", "tmp", "var"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(_program("busybox-static"), root / "bin/busybox")
    for applet in _APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    for name, path in binaries.items():
        shutil.copy(path, root / "bin" / name)
        for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True).stdout):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
    for name, text in (("init", _INIT), ("kubeadm", _KUBEADM), ("kubectl", "#!/bin/sh\n")):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    (root / "kind/version").write_text("v1.36.3")
    _bake(root)
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as members:
        members.add(root, arcname=".")
    shutil.rmtree(root)
    _podman("import", "--change", 'ENTRYPOINT ["/bin/init"]', "--change", "STOPSIGNAL SIGKILL", str(archive), IMAGE)
    archive.unlink()
    _podman("run", "--rm", "--privileged", "--cgroupns=private", "--entrypoint=/bin/echo", IMAGE, "hello")


def _bake(root: Path) -> None:
    """Writes CA, certificate of the server, and kubeconfig into the image."""
    ca = CertificateAuthority.generate("kubernetes")
    (root / "etc/kubernetes/pki/ca.crt").write_bytes(ca.cert_pem)
    (root / "etc/kubernetes/pki/ca.key").write_bytes(ca.key_pem)
    server = ca.issue("kube-apiserver", dns=["localhost"], ips=["127.0.0.1"], server=True)
    admin = ca.issue("kubernetes-admin", ["system:masters"])
    (root / "baked/server.crt").write_bytes(server.cert_pem)
    (root / "baked/server.key").write_bytes(server.key_pem)
    accounts = service_account_keys()
    (root / "baked/sa.pub").write_bytes(accounts.cert_pem)
    (root / "baked/sa.key").write_bytes(accounts.key_pem)

    def data(content: bytes) -> str:
        return base64.b64encode(content).decode()

    cluster = {"certificate-authority-data": data(ca.cert_pem), "server": "https://127.0.0.1:6443"}
    user = {"client-certificate-data": data(admin.cert_pem), "client-key-data": data(admin.key_pem)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (root / "baked/admin.conf").write_text(yaml.safe_dump(config))


def _podman(*arguments: str) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEngine(f"podman {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
