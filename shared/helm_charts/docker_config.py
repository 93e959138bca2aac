"""Credentials of registries in Docker's `config.json`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from shared import memory_budget
from shared.download.access import without_default_port

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class InvalidConfig(ValueError):
    """A text is no `config.json`; the message is a predicate without any part of the text."""


def login(data: bytes, host: str) -> tuple[str, str] | None:
    """Returns user name and password for a host, which may have a port; None if the file has none.

    Raises `InvalidConfig`, or `MemoryBusy`.
    """
    try:
        document = memory_budget.loads(data, keep=False)
    except (ValueError, RecursionError):
        raise InvalidConfig("is not JSON") from None
    entries = document.get("auths") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise InvalidConfig('has no "auths"')
    for server, entry in entries.items():
        if isinstance(entry, dict) and _is_host(server, host):
            return _login(entry)
    return None


def _is_host(server: str, host: str) -> bool:
    """Returns whether a key of `auths` is about a host: `registry.example.com` or `https://registry.example.com/v1/`."""
    name, _, path = server.removeprefix("https://").removeprefix("http://").partition("/")
    hosts = {without_default_port(name), without_default_port(host)}
    return path.strip("/") in ("", "v1", "v2") and (len(hosts) == 1 or hosts <= _DOCKER_HUB)


def _login(entry: Mapping[str, Any]) -> tuple[str, str]:
    user, password = entry.get("username"), entry.get("password")
    if isinstance(entry.get("auth"), str) and entry["auth"]:
        try:
            user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise InvalidConfig('has an "auth" that is not base64') from None
    if not (isinstance(user, str) and isinstance(password, str) and user):
        raise InvalidConfig("has no user name and password for the host")
    if not (user.isprintable() and password.isprintable()):
        raise InvalidConfig("has a user name or password of more than one line")
    return user, password
