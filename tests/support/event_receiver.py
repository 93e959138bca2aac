"""An HTTP server in place of functions or of a broker: records the CloudEvents that it receives."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.event import Event, from_http
from shared.runtime.answer import Answer

from .http_server import HttpServer, Request, Response


class EventReceiver(HttpServer):
    """Answers with `respond(function, event)`; `received` has function, event and time of arrival of each event."""

    def __init__(self, respond: Callable[[str, Event], Answer] | None = None, port: int = 0) -> None:
        super().__init__(self._receive, port=port)
        self.respond = respond or (lambda _function, _event: Answer(204))
        self.received: list[tuple[str, Event, float]] = []

    def _receive(self, request: Request) -> Response:
        event, function = from_http(dict(request.headers), request.body), request.path.strip("/")
        self.received.append((function, event, time.time()))
        answer = self.respond(function, event)
        headers, body = answer.reply.to_http() if answer.reply else ({}, answer.message.encode())
        if answer.retry_after is not None:
            headers["Retry-After"] = str(max(1, round(answer.retry_after)))
            headers["Retry-After-Ms"] = str(int(answer.retry_after * 1000))
        return Response(answer.status, body, headers)
