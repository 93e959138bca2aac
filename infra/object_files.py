"""Keeps the objects of an S3 server, which has them in memory, in a directory: a WSGI application around the server.

A request that writes is answered once its objects are files. A file is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from werkzeug.test import Client

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

_READS = {"GET", "HEAD"}
_SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=store/20000101/us-east-1/s3/aws4_request"}
"""The server checks no signature, but asks for one."""
_PART = ".part"
"""How the name of an incomplete file ends. No other has a dot."""


class ObjectFiles:
    """The application; a directory is a bucket, and a file is an object, named like its key.

    Args:
        application: The server.
        directory: Where the objects are kept. Those that are there already are served from the start.

    Raises:
        OSError: The directory cannot be read or written.
    """

    def __init__(self, application: WSGIApplication, directory: Path) -> None:
        self._application, self._directory = application, directory
        self._server = Client(application)
        self._lock = Lock()
        self._restore()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answers a request."""
        if environ["REQUEST_METHOD"] in _READS:
            return self._application(environ, start_response)
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().removeprefix("/").partition("/")
        statuses: list[str] = []

        def start(status: str, *more: Any) -> Callable[[bytes], object]:
            statuses.append(status)
            return start_response(status, *more)

        with self._lock:
            answer = list(self._application(environ, start))
            if statuses[-1] < "3" and bucket:
                self._save(bucket, key)
        return answer

    def _restore(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for folder in (entry for entry in self._directory.iterdir() if entry.is_dir()):
            bucket = unquote(folder.name)
            self._ask("PUT", bucket)
            for file in folder.iterdir():
                if file.name.endswith(_PART):
                    file.unlink()
                else:
                    self._ask("PUT", bucket, unquote(file.name), data=file.read_bytes())

    def _save(self, bucket: str, key: str) -> None:
        """Makes the file equal to the object; without a key, all files that there are: several may be deleted."""
        folder = self._directory / _name(bucket)
        folder.mkdir(exist_ok=True)
        for name in [_name(key)] if key else [file.name for file in folder.iterdir()]:
            content = self._ask("GET", bucket, unquote(name))
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                _write(folder / name, content)

    def _ask(self, method: str, bucket: str, key: str = "", **request: Any) -> bytes | None:
        """Returns the body of the server's answer; None if it has no such object."""
        path = f"/{bucket}/{quote(key)}" if key else f"/{bucket}"
        response = self._server.open(path, method=method, headers=_SIGNED, **request)
        if response.status_code == HTTPStatus.NOT_FOUND:
            return None
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            raise OSError(f"the object store answers {method} {bucket}/{key} with {response.status}")
        return response.get_data()


def _name(key: str) -> str:
    """Returns the name of a file or directory: the key of an object, or a bucket, without slashes and dots."""
    return quote(key, safe="").replace(".", "%2E")


def _write(file: Path, content: bytes) -> None:
    part = file.with_name(file.name + _PART)
    with part.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    part.replace(file)
