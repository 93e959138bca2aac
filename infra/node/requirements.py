"""The requirements of a real node. Nothing is changed to find out: kernel features are tried in namespaces."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from infra.node import addresses, cgroups, debian

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}
_NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--propagation=private")
# Each line is a feature of the kernel: its purpose, and a command that needs it.
_FEATURES = (
    ("links to a node (veth)", "ip link add test0 type veth peer name test1"),
    ("bridges", "ip link add test0 type bridge"),
    ("overlay file systems over the root", "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m && "
     "mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m"),
)  # fmt: skip
_NFTABLES = "nft add table ip t && nft add chain ip t c '{ type nat hook output priority 0; }' && " \
    "nft add rule ip t c ct state new fib daddr type local return"  # fmt: skip


def missing() -> list[str]:
    """Returns what this machine lacks to run a node, a sentence each; an empty list if it can run one."""
    if sys.platform != "linux":
        return ["A node needs Linux."]
    if os.geteuid() != 0:
        return ["A node needs root, for namespaces, mounts and cgroups."]
    tools = [name for name in ("ip", "unshare", "nsenter", "mount", "pivot_root") if not shutil.which(name)]
    if tools:
        return [f"A node needs {', '.join(tools)}: apt-get install iproute2 util-linux mount."]
    return _capabilities() or [*_packages(), *_cgroups(), *_kernel(), *_addresses()]


def _capabilities() -> list[str]:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    held = int(line.split()[1], 16)
    lacking = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
    return [f"This process lacks {', '.join(lacking)}, as in a container that is not privileged."] if lacking else []


def _packages() -> list[str]:
    absent = debian.absent()
    if not absent or debian.downloadable():
        return []
    return [f"A node needs {', '.join(absent)}, which apt-get can download on Debian only: install them."]


def _cgroups() -> list[str]:
    found = {name for hierarchy in cgroups.hierarchies() for name in hierarchy.options.split(",")}
    if not found:
        return ["A node needs cgroup v1, and this machine has cgroup v2 only."]
    if fixed := [
        str(each.cgroup.parent) for each in cgroups.hierarchies() if not os.access(each.cgroup.parent, os.W_OK)
    ]:
        return [f"A node needs cgroups, and {fixed[0]} cannot be written."]
    absent = cgroups.CONTROLLERS - found
    return [f"A node needs the cgroup controllers {', '.join(sorted(absent))}."] if absent else []


def _kernel() -> list[str]:
    problems = []
    if error := _failure("true"):
        return [f"This process must not create namespaces: {error}."]
    for what, command in _FEATURES:
        if error := _failure(command):
            problems.append(f"The kernel has no {what}: {error}.")
    packages, nft = debian.present(), _NFTABLES
    if packages and not shutil.which("nft"):
        nft = f"mount -t overlay -o lowerdir={shlex.quote(str(packages / 'usr'))}:/usr o /usr && {nft}"
    if (packages or shutil.which("nft")) and (error := _failure(nft)):  # else nothing can try it before a download
        problems.append(f"The kernel has no nftables: {error}.")
    return problems


def _addresses() -> list[str]:
    done = subprocess.run(["ip", "-o", "route", "show"], capture_output=True, text=True, check=False)
    taken = [line for line in done.stdout.splitlines() if line.startswith(("198.18.", "198.19."))]
    foreign = [line for line in taken if f"dev {addresses.LINK}" not in line]
    return [f"A node uses 198.18.0.0/15, and this machine has a route to it: {foreign[0].strip()}."] if foreign else []


def _failure(command: str) -> str:
    """Returns why a shell command fails in namespaces of its own, "" if it succeeds."""
    try:
        done = subprocess.run(
            ["unshare", *_NAMESPACES, "--kill-child", "sh", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except subprocess.TimeoutExpired:
        return f"`{command}` has no end after 30 s"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[0].rstrip(".")
