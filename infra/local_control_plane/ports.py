"""A TCP port that stays ours between choosing it and the server's listening on it, and after.

The usual way, bind port 0, close, tell the server, lets another process take the port in between. Here the
socket stays open, bound but never listening, for as long as the server lives; the server shares the port
through SO_REUSEPORT (kube-apiserver: --permit-port-sharing). A bound socket that does not listen receives
nothing.
"""

import contextlib
import socket


def hold(preferred: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """A socket that holds `preferred` if it is free and any free port otherwise, until it is closed.

    The port is in ``getsockname()[1]``. Only sockets of the same user with SO_REUSEPORT can bind it too, and
    no other `hold` can. Raises OSError when no port is free.
    """
    with contextlib.suppress(OSError, OverflowError):
        return _bind(host, preferred)
    return _bind(host, 0)


def _bind(host: str, port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # SO_REUSEADDR: connections of the run before may linger in TIME_WAIT on a preferred port.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        # Sharing is allowed only after binding, or a second holder of the same port would succeed as well.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        held.close()
        raise
    return held
