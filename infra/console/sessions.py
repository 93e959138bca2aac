"""Keeps a session for each token: a client and watches with the rights of this token.

A session is only a cache, because any request with a valid token gets one. The API server checks the token again each
minute, because a session still has its objects in memory when the token has expired.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from shared.kube import ApiError, Client, dig
from shared.kube.credentials import is_token
from shared.settings import NAMESPACE

from .actions import Actions
from .flow import Flow
from .pages import Source
from .shares import to_end
from .watches import Watches

MOST = 20
"""Sessions at the same time: each has a watch per kind, and the objects in memory."""
_IDLE = 900.0
"""Seconds without a request after which a session ends."""
_CHECKED_FOR = 60.0
_FIRST_LISTS = 5.0
_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class LoginRefused(Exception):
    """A token that is not accepted; the message says why, without the token."""


class TokenRefused(LoginRefused):
    """A token that the API server does not accept."""


@dataclass
class _Session:
    source: Source
    end: Callable[[], None]
    share: str
    checked: float
    used: float


class Sessions:
    """The sessions by token.

    Args:
        connect: Returns a client with a token and nothing else.
        name: The name of the management cluster for people.
        namespace: The only namespace that is shown; empty for all.
        functions: The namespace of the functions.
        changes: Whether pages offer changes.
    """

    def __init__(
        self,
        connect: Callable[[str], Client],
        name: str,
        namespace: str = "",
        *,
        functions: str = NAMESPACE,
        changes: bool = False,
    ) -> None:
        self._connect, self._name, self._namespace = connect, name, namespace
        self._functions, self.changes = functions, changes
        self._lock = threading.Lock()
        self._sessions: dict[bytes, _Session] = {}

    def source(self, token: str) -> Source:
        """Returns the source of a person's pages. Raises `LoginRefused`, or `ApiError` without an answer."""
        if not is_token(token):
            raise LoginRefused("this is not a token; `kubectl create token NAME` prints a token of a ServiceAccount")
        self._end_idle()
        key, now = hashlib.sha256(token.encode()).digest(), time.monotonic()
        with self._lock:
            session = self._sessions.get(key)
        if session is None:
            session = self._open(key, token)
        elif now - session.checked > _CHECKED_FOR:
            try:
                _user(session.source.management)
            except LoginRefused:
                self.close(token)
                raise
            session.checked = now
        session.used = now
        return session.source

    def close(self, token: str) -> None:
        """Ends the session of a token, if there is one."""
        with self._lock:
            session = self._sessions.pop(hashlib.sha256(token.encode()).digest(), None)
        if session is not None:
            session.end()

    def end(self) -> None:
        """Ends all sessions."""
        with self._lock:
            ended, self._sessions = list(self._sessions.values()), {}
        for session in ended:
            session.end()

    def _open(self, key: bytes, token: str) -> _Session:
        with ExitStack() as stack:
            client = self._connect(token)
            stack.callback(client.close)
            user = _user(client)
            name = f"{user} at {self._name}"
            watches = stack.enter_context(Watches(client, self._namespace))
            watches.wait_listed(_FIRST_LISTS)
            actions = Actions(client) if self.changes else None
            flow = Flow.of_cluster(client, self._functions)
            source = Source(client, watches, flow, name, self._namespace, actions, is_shared=True)
            now = time.monotonic()
            with self._lock:
                if (existing := self._sessions.get(key)) is not None:  # a request at the same time was faster
                    return existing
                share = _share_of(user)
                ended = self._make_room(share) if len(self._sessions) >= MOST else None
                session = self._sessions[key] = _Session(source, stack.pop_all().close, share, now, now)
        if ended is not None:
            ended.end()
        return session

    def _make_room(self, share: str) -> _Session:
        """Removes and returns the session that makes room for a new one of `share`. Raises `LoginRefused`."""
        key = to_end(share, {key: (one.share, one.used) for key, one in self._sessions.items()})
        if key is None:
            raise LoginRefused(f"{MOST} people use this console already: try again in some minutes")
        return self._sessions.pop(key)

    def _end_idle(self) -> None:
        oldest = time.monotonic() - _IDLE
        with self._lock:
            idle = [key for key, session in self._sessions.items() if session.used < oldest]
            ended = [self._sessions.pop(key) for key in idle]
        for session in ended:
            session.end()


def _share_of(user: str) -> str:
    """Returns the name of a user; the namespace of a ServiceAccount, because its owner can create more accounts."""
    return user.rpartition(":")[0] if user.startswith("system:serviceaccount:") else user


def _user(client: Client) -> str:
    """Returns the name of a client's user. Raises `TokenRefused` for a token that the API server does not accept."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        review = client.request("POST", _REVIEW, body=body)
    except ApiError as error:
        if error.status == 401:
            raise TokenRefused(
                "the API server does not accept this token, for example because it has expired; "
                "`kubectl create token NAME` prints a new token of a ServiceAccount"
            ) from None
        raise
    return str(dig(review, "status.userInfo.username"))
