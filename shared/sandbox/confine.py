"""Removes rights that untrusted input does not need from this process: files, network, other processes, programs.

Any unprivileged process can do so for itself and for the programs that it executes, irreversibly. There are three
independent layers, because a kernel may lack one:

- a filter of system calls (seccomp) refuses sockets, signals, other processes, programs, and files to write;
- Landlock leaves the named files, and for lookups one port of the loopback interface;
- a process of root drops its capabilities, and becomes the user `nobody` if that user can read the libraries.

As a program, `python confine.py JSON PROGRAM ARGUMENTS` confines itself and executes a program. So the module imports
only the standard library, and little of it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

NOT_STARTED = 199
"""Exit status if the program cannot be executed; standard error has the reason."""

NOBODY = 65534
"""uid and gid of the user `nobody`."""

SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", "/proc/self")
"""The files that interpreters and libraries read, beside their own folders."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Access:
    """The resources of a confined process.

    Attributes:
        read: Files and folders to read, with the folders' content.
        list: Folders whose names can be listed recursively.
        write: A folder to write; "" for no file at all.
        program: The open file of a program to execute; None for no program.
        port: A TCP port to connect to; None for no network. Without Landlock's rules for TCP it is any port.
    """

    read: Collection[str] = ()
    list: Collection[str] = ()
    write: str = ""
    program: int | None = None
    port: int | None = None


def confine(access: Access) -> None:
    """Confines this process, which must have a single thread. A layer that the kernel lacks is left out.

    Raises `OSError` if the kernel has a layer, but refuses to install it.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    drop_privileges(access)
    restrict_files(access)
    filter_system_calls(access)


def missing() -> list[str]:
    """Returns sentences about the rights that remain because of missing features of the kernel."""
    abi = _landlock_abi()
    found = []
    if not has_system_call_filter():
        found.append("seccomp filters are missing: workers can open sockets, and end processes of the same user")
    if abi < 1:
        found.append("Landlock is missing: workers can read every file of their user, such as tokens and settings")
    elif abi < _ABI_TCP:
        found.append(
            "Landlock has no rules for TCP (Linux 6.7 has them): helm can connect anywhere for charts with lookups"
        )
    return found


# -- the user --------------------------------------------------------------------------------------------------


def drop_privileges(access: Access) -> None:
    """Makes a process of root one of `nobody` if that user can read its files; drops all capabilities."""
    if os.geteuid() != 0:
        return
    with suppress(OSError):
        if _readable_by_nobody((*access.read, os.path.dirname(access.write))):
            for path in _tree(access.write):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _libc.syscall(_numbers()["capset"], header, bytes(24))


def _tree(folder: str) -> Iterator[str]:
    if folder:
        yield folder
        for path, folders, files in os.walk(folder):
            yield from (os.path.join(path, name) for name in (*folders, *files))


def _readable_by_nobody(paths: Iterable[str]) -> bool:
    present = [path for path in paths if os.path.exists(path)]
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        return all(os.access(path, os.R_OK, effective_ids=True) for path in present)
    finally:
        os.seteuid(0)
        os.setegid(0)


# -- Landlock --------------------------------------------------------------------------------------------------

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE = sum(1 << bit for bit in (4, 5, 7, 8, 12, 13))
"""Removes files and folders, makes files, folders and symbolic links, and moves them."""
_ALL = ((1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
"""All rights on files by Landlock's version (ABI) 1 to 5."""
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
"""The programs that load shared libraries."""
_TCP = 0b11
_CONNECT_TCP = 0b10
_SCOPES = 0b11
"""Abstract Unix sockets, and signals."""
_ABI_TCP, _ABI_SCOPES = 4, 6
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH, _RULE_PORT = 1, 2


def restrict_files(access: Access) -> None:
    """Restricts files, TCP and signals by the Landlock features that the kernel has."""
    abi = _landlock_abi()
    if abi < 1:
        return
    handled = _ALL[min(abi, len(_ALL)) - 1]
    size = 24 if abi >= _ABI_SCOPES else 16 if abi >= _ABI_TCP else 8
    attributes = struct.pack("=QQQ", handled, _TCP, _SCOPES)[:size]
    ruleset = _libc.syscall(_CREATE_RULESET, attributes, size, 0)
    _check(ruleset, "Landlock")
    try:
        for path in access.read:
            _allow_path(ruleset, path, _READ_FILE | _READ_DIR)
        for path in access.list:
            _allow_path(ruleset, path, _READ_DIR)
        if access.write:
            rights = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _MAKE
            _allow_path(ruleset, access.write, rights & handled)
        if access.program is not None:
            _allow(ruleset, access.program, _EXECUTE | _READ_FILE)
            for loader in _LOADERS:
                _allow_path(ruleset, loader, _EXECUTE | _READ_FILE)
        if access.port is not None and abi >= _ABI_TCP:
            _libc.syscall(_ADD_RULE, ruleset, _RULE_PORT, struct.pack("=QQ", _CONNECT_TCP, access.port), 0)
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        _allow(ruleset, descriptor, rights)
    finally:
        os.close(descriptor)


def _allow(ruleset: int, descriptor: int, rights: int) -> None:
    _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH, struct.pack("=Qi", rights, descriptor), 0)


def _check(result: int, layer: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{layer} is refused: {os.strerror(number)}")


def _landlock_abi() -> int:
    """Returns the version of Landlock; below 1 without it."""
    return int(_libc.syscall(_CREATE_RULESET, None, 0, 1))


# -- seccomp ---------------------------------------------------------------------------------------------------

_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    # network, and channels to other processes
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # programs and new processes
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    # the system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "personality": (135, 92),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    # owners and rights of files, which Landlock leaves alone
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "utime": (132, None),
    "utimes": (235, None),
    "utimensat": (280, 88),
    "futimesat": (261, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # files to write
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "truncate": (76, 45),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    # what this module calls itself
    "capset": (126, 91),
}
"""The numbers of system calls on x86_64 and aarch64 (`asm/unistd_64.h`, `asm-generic/unistd.h` of Linux)."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column in `_NUMBERS`, and the number of the architecture in audit records."""

_ABSENT = ("clone3", "openat2")
"""Calls whose arguments a filter cannot see. They seem not to exist, so C libraries and Go use older calls instead."""
_NEWEST = 446
"""The newest call that this module knows, `landlock_restrict_self`; newer calls seem not to exist."""
_X32 = 0x40000000
"""Calls from this number on belong to another ABI of x86_64."""
_TO_WRITE = (
    *("creat", "truncate", "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir"),
    *("link", "linkat", "symlink", "symlinkat"),
)
_CLONE_THREAD = 0x10000
_MSG_FASTOPEN = 0x20000000
"""Connects by sending; some kernels apply no rule of Landlock to it."""
_SOCK_TYPE = 0xF

_LOAD, _EQUAL, _GREATER, _BITS, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
"""Instructions of BPF: loads a word, jumps if it is equal to, greater than, or has a bit of a constant, ..."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_REFUSE, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip if the condition holds, and if it does not, and the constant."""


def filter_system_calls(access: Access) -> None:
    """Installs the filter of system calls."""
    instructions = filter_program(access, os.getpid(), os.uname().machine)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    result = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program)
    number = ctypes.get_errno()
    if result < 0 and has_system_call_filter():
        raise OSError(number, f"the filter of system calls is refused: {os.strerror(number)}")


def has_system_call_filter() -> bool:
    """Returns whether the kernel has filters, and this module knows the processor's architecture."""
    _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None)
    return ctypes.get_errno() == errno.EFAULT and os.uname().machine in _ARCHITECTURES


def filter_program(access: Access, pid: int, machine: str) -> list[Instruction]:
    """Returns the filter as BPF; empty for an unknown architecture. `pid` is the process, which may signal itself."""
    if machine not in _ARCHITECTURES:
        return []
    _, audit = _ARCHITECTURES[machine]
    numbers = _numbers(machine)
    special = dict(_conditions(access, pid))
    program: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _REFUSE)]
    program += [(_LOAD, 0, 0, 0), (_GREATER, 0, 1, _X32 - 1), (_RETURN, 0, 0, _REFUSE)]
    program += [(_GREATER, 0, 1, _NEWEST), (_RETURN, 0, 0, _UNKNOWN)]
    for name, number in numbers.items():
        if name == "capset":
            continue
        if name in special:
            body = special[name]
        elif access.write and name in _TO_WRITE:
            continue
        else:
            body = [(_RETURN, 0, 0, _UNKNOWN if name in _ABSENT else _REFUSE)]
        program += [(_EQUAL, 0, len(body), number), *body]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _conditions(access: Access, pid: int) -> Iterator[tuple[str, list[Instruction]]]:
    """Yields system calls that some arguments allow, with the instructions that decide."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)
    yield "clone", [_argument(0), (_BITS, 0, 1, _CLONE_THREAD), allow, refuse]
    for name in ("kill", "tgkill"):
        yield name, [_argument(0), (_EQUAL, 0, 1, pid), allow, refuse]
    yield "prlimit64", [_argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, pid), allow, refuse]
    for name, position in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield name, [_argument(position), (_BITS, 0, 1, _MSG_FASTOPEN), refuse, allow]
    write = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    for name, position in (("open", 1), ("openat", 2)):
        yield name, [allow] if access.write else [_argument(position), (_BITS, 0, 1, write), refuse, allow]
    if access.program is not None:
        yield "execve", [allow]
        yield "execveat", [allow]
    if access.port is not None:
        # TCP only: over IPv4 or IPv6, a stream, of the default protocol or TCP's number.
        yield (
            "socket",
            [
                *(_argument(0), (_EQUAL, 2, 0, 2), (_EQUAL, 1, 0, 10), refuse),
                *(_argument(1), (_AND, 0, 0, _SOCK_TYPE), (_EQUAL, 1, 0, 1), refuse),
                *(_argument(2), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, 6), allow, refuse),
            ],
        )
        yield "connect", [allow]


def _argument(position: int) -> Instruction:
    """Loads the lower half of an argument; flags and numbers of processes have 32 bits (`struct seccomp_data`)."""
    return (_LOAD, 0, 0, 16 + 8 * position)


def _numbers(machine: str = "") -> dict[str, int]:
    column, _ = _ARCHITECTURES.get(machine or os.uname().machine, (0, 0))
    return {name: number for name, both in _NUMBERS.items() if (number := both[column]) is not None}


_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


# -- as a program ----------------------------------------------------------------------------------------------


def main() -> None:
    """Sets the limits, confines this process, and executes the program: `JSON PROGRAM ARGUMENTS`."""
    options: Mapping[str, Any] = json.loads(sys.argv[1])
    for which, value in options["limits"]:
        resource.setrlimit(which, (value, value))
    try:
        program = os.open(sys.argv[2], os.O_RDONLY)  # before this process is `nobody`, who may not reach the file
        read = (*SYSTEM, *options["read"])
        confine(Access(read, write=options["write"], program=program, port=options["port"]))
        os.execve(program, sys.argv[2:], os.environ)  # noqa: S606 - no shell
    except OSError as error:
        os.write(2, (error.strerror or str(error)).encode())
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main()
