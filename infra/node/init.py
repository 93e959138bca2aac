"""The first process of the node: `python -m infra.node.init`, in new namespaces. It gives the node a root, and waits.

All mounts are made in the node's own mount namespace, so that they end with it. The root is an overlay over this
machine's root whose changes are in memory; large data (containers, volumes) are in the node's folder. The folder is
/node in the node, the programs are in /node/bin.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra.node import cgroups

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
# The kubelet would write these settings of the whole machine, so it gets private files instead.
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
_LARGE = {"containerd": "var/lib/containerd", "kubelet": "var/lib/kubelet", "pods": "var/log/pods"}
"""Folders of the node's folder, and where they are in the root. Containerd's overlays cannot lie on an overlay."""


def build_root(folder: Path, hostname: str, programs: Mapping[str, Path], packages: Path | None) -> None:
    """Makes the root of this process's mount namespace: an overlay over the old one. Raises CalledProcessError."""
    memory, root = folder / "memory", folder / "root"
    for path in (memory, root):
        path.mkdir()
    _mount("tmpfs", memory, "-t", "tmpfs", "-o", "mode=755")
    for name in ("upper", "work"):
        (memory / name).mkdir()
    overlay = f"lowerdir=/,upperdir={memory / 'upper'},workdir={memory / 'work'}"
    _mount("overlay", root, "-t", "overlay", "-o", overlay)
    if packages:  # not a layer of the former overlay, as one layer must not lie in another
        _mount("overlay", root / "usr", "-t", "overlay", "-o", f"lowerdir={packages / 'usr'}:/usr")
    for name in ("proc", "sys", "dev", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    _mount("tmpfs", root / "run", "-t", "tmpfs", "-o", "mode=755")
    _mount("tmpfs", root / "tmp", "-t", "tmpfs", "-o", "mode=1777")
    (root / "node").mkdir()
    _mount(folder, root / "node", "--bind")
    for name, place in _LARGE.items():
        (folder / name).mkdir(exist_ok=True)
        (root / place).mkdir(parents=True, exist_ok=True)
        _mount(folder / name, root / place, "--bind")
    for name, program in programs.items():
        target = root / "node/bin" / name
        target.parent.mkdir(exist_ok=True)
        target.touch()
        _mount(program, target, "--bind")
    _kernel_files(root)
    _devices(root / "dev")
    _private_sysctls(root / "proc/sys", folder / "sysctl")
    for name, text in (("hosts", f"127.0.0.1 localhost {hostname}\n"), ("hostname", hostname), ("resolv.conf", "")):
        (root / "etc" / name).unlink(missing_ok=True)
        (root / "etc" / name).write_text(text)
    _enter(root)
    subprocess.run(["hostname", hostname], check=True)


def _kernel_files(root: Path) -> None:
    _mount("proc", root / "proc", "-t", "proc")
    _mount("sysfs", root / "sys", "-t", "sysfs")
    _mount("tmpfs", root / "sys/fs/cgroup", "-t", "tmpfs", "-o", "mode=755")
    for hierarchy in cgroups.hierarchies():
        # In the new cgroup namespace the root of the hierarchy is the node's cgroup.
        target = root / hierarchy.mount.relative_to("/")
        target.mkdir()
        _mount("cgroup", target, "-t", "cgroup", "-o", hierarchy.options)


def _devices(folder: Path) -> None:
    _mount("tmpfs", folder, "-t", "tmpfs", "-o", "mode=755")
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, 0o20666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    os.mknod(folder / "kmsg", 0o20644, os.makedev(1, 11))
    for name in ("pts", "shm", "mqueue"):
        (folder / name).mkdir()
    _mount("devpts", folder / "pts", "-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620")
    _mount("tmpfs", folder / "shm", "-t", "tmpfs")
    _mount("mqueue", folder / "mqueue", "-t", "mqueue")
    (folder / "ptmx").symlink_to("pts/ptmx")
    (folder / "fd").symlink_to("/proc/self/fd")


def _private_sysctls(sysctls: Path, folder: Path) -> None:
    folder.mkdir()
    for name, value in _SYSCTLS.items():
        private = folder / name.replace("/", "_")
        private.write_text(f"{value}\n")
        _mount(private, sysctls / name, "--bind")
    (sysctls / "net/ipv4/ip_forward").write_text("1")  # of the node's network namespace


def _enter(root: Path) -> None:
    (root / "old").mkdir()
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/old"], check=True)
    os.rmdir("/old")
    # The kubelet passes mounts on to containers. This comes last, because pivot_root refuses a shared root.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)


def _mount(source: Path | str, target: Path, *options: str) -> None:
    subprocess.run(["mount", *options, str(source), str(target)], check=True)


def _wait() -> None:
    """Reaps ended processes of the node, until this process is killed."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def main() -> None:
    """Builds the root, signals this to the keeper by a file, and waits."""
    parser = argparse.ArgumentParser(prog="python -m infra.node.init")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hostname", required=True)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    programs = {name: Path(path) for name, _, path in (given.partition("=") for given in options.program)}
    build_root(options.folder, options.hostname, programs, options.packages)
    Path("/node/rooted").touch()
    _wait()


if __name__ == "__main__":
    main()
