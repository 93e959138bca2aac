"""A chart repository for one test: charts, an index, and an https server with a certificate of its own CA."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from shared.charts import archive
from tests.support.http_server import HttpServer, Request, Response

TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\ndata: {version: {{ .Chart.Version }}}\n"


def chart(name: str = "demo", version: str = "1.0.0", files: Mapping[str, str] | None = None) -> bytes:
    """Returns a packed chart with these further files."""
    metadata = f"apiVersion: v2\nname: {name}\nversion: {version}\n"
    content = {"Chart.yaml": metadata, "templates/map.yaml": TEMPLATE, **(files or {})}
    return archive.pack({f"{name}/{path}": text.encode() for path, text in content.items()})


@dataclass
class ChartRepository:
    """The content of a repository, by the path of its charts; `entries` are the entries of its index."""

    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, version: str, data: bytes | None = None, **entry: Any) -> bytes:
        """Adds a chart with these fields of its entry in the index; returns it."""
        data, path = chart(name, version) if data is None else data, f"charts/{name}-{version}.tgz"
        found = {"name": name, "version": version, "urls": [path], "digest": hashlib.sha256(data).hexdigest()}
        self.entries.setdefault(name, []).append(found | entry)
        self.files[f"/repo/{path}"] = data
        return data

    def answer(self, request: Request) -> Response:
        """Answers a request; a query is ignored."""
        path = request.path.partition("?")[0]
        if path == "/repo/index.yaml":
            return Response(body=yaml.safe_dump({"apiVersion": "v1", "entries": self.entries}).encode())
        return Response(body=self.files[path]) if path in self.files else Response(404)

    def serve(self, tls: Path) -> HttpServer:
        """Returns the server; the repository is at `<url>/repo`."""
        return HttpServer(self.answer, tls)
