"""Searches everything that functions write for secrets that a test has planted."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, quote_plus

import flask

from events.delivery import read_answer
from functions import catalog
from shared.api.resources import EVENT
from shared.clients import Clients
from shared.event import Event
from shared.kube import Client, NotFound, Resource, dig
from shared.runtime import Answer, logs
from shared.runtime.http import target
from shared.storage import ObjectStore


def forms(secret: str) -> set[str]:
    """Returns the secret as it is, escaped for JSON and URLs, and in base64 at each of the three alignments."""
    data = secret.encode()
    found = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        skip = (0, 2, 3)[before]  # characters that depend on what comes before
        end = len(encoded.rstrip("=")) - (1 if (before + len(data)) % 3 else 0)
        found.add(encoded[skip:end])
    return {form for form in found if len(form) >= 6}


class WrittenTexts:
    """All that functions write: logs, answers, Kubernetes events, objects, stored objects, captures."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def add(self, place: str, text: str) -> None:
        self.texts.append((place, text))

    @contextmanager
    def collect_logs(self) -> Iterator[None]:
        """Collects what is logged meanwhile, in both formats, with the warnings of all libraries."""
        handlers = [_Handler(self, "log", logs.Text()), _Handler(self, "JSON log", logs.Json())]
        loggers = [logging.getLogger("capi-functions"), logging.getLogger()]
        for logger in loggers:
            for handler in handlers:
                logger.addHandler(handler)
        try:
            yield
        finally:
            for logger in loggers:
                for handler in handlers:
                    logger.removeHandler(handler)

    def call(self, name: str, event: Event, clients: Clients) -> Answer:
        """Calls a function over HTTP, collects the response, and returns the answer."""
        headers, body = event.to_http()
        with flask.Flask("test").test_request_context("/", method="POST", headers=headers, data=body):
            response = target(name, catalog.handler(name), clients)(flask.request)
        self.add("answer", f"{response.status_code} {response.headers}\n{response.get_data(as_text=True)}")
        return read_answer(response.status_code, dict(response.headers), response.get_data())

    def add_objects(self, client: Client, namespace: str, resources: Iterable[Resource], *, whole: bool = True) -> None:
        """Collects the Kubernetes events and objects of a namespace, or, without `whole`, their status only."""
        for event in client.list(EVENT, namespace):
            self.add("event", json.dumps(event))
        for resource in resources:
            try:
                for obj in client.list(resource, namespace):
                    obj["metadata"].pop("managedFields", None)
                    self.add(resource.kind, json.dumps(obj if whole else obj.get("status")))
            except NotFound:
                continue

    def add_stored_objects(self, store: ObjectStore) -> None:
        for entry in store.list_objects(""):
            self.add("stored", f"{entry.key}\n{(store.get(entry.key) or b'').decode(errors='replace')}")

    def add_files(self, folder: Path) -> None:
        for file in folder.rglob("*"):
            if file.is_file():
                self.add("capture", file.read_text())

    def find(self, *secrets: str) -> list[str]:
        """Returns each place that contains a secret, with the text around it."""
        return [
            f"{place}: ...{text[max(0, text.index(form) - 80) : text.index(form) + len(form) + 20]}..."
            for secret in secrets
            for form in forms(secret)
            for place, text in self.texts
            if form in text
        ]

    def kinds(self) -> set[str]:
        return {place for place, _ in self.texts}


class _Handler(logging.Handler):
    def __init__(self, texts: WrittenTexts, place: str, formatter: logging.Formatter) -> None:
        super().__init__(logging.DEBUG)
        self._texts, self._place = texts, place
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or record.name.startswith("capi-functions"):
            self._texts.add(self._place, self.format(record))


def conditions(obj: dict[str, object] | None) -> str:
    """Returns the messages of all conditions."""
    return " ".join(str(one.get("message")) for one in dig(obj or {}, "status.conditions", []))
