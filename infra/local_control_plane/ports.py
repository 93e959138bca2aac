"""Reserves a TCP port for a server, from the choice of the port until the server's end.

The usual way (bind port 0, close, start the server with that port) lets another process take the port in between. Here
the socket stays open, bound but never listening, until the server's end; the server shares the port through
SO_REUSEPORT (kube-apiserver: --permit-port-sharing). A bound socket that does not listen receives no connections.
"""

import contextlib
import errno
import socket


def hold(preferred: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """Returns a socket that reserves the port `preferred`, or any free port if that is taken, until it is closed.

    The port is in `getsockname()[1]`. Only sockets of the same user with SO_REUSEPORT can bind it too; a second
    `hold` cannot. Raises OSError if no port is free.
    """
    with contextlib.suppress(OSError, OverflowError):
        return _bind(host, preferred)
    return _bind(host, 0)


def has_address(host: str) -> bool:
    """Returns whether this machine has the address `host`, because some have no IPv6."""
    try:
        with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return False
        raise
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to the port and does not listen. Raises OSError if the port is taken."""
    held = socket.socket(_family(host), socket.SOCK_STREAM)
    try:
        # SO_REUSEADDR, because connections of the former run may be in TIME_WAIT on a preferred port.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        # Sharing is allowed only after binding, because otherwise a second `hold` of the same port would succeed.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        held.close()
        raise
    return held
