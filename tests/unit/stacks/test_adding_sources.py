"""A module in the folder of sources is all that a new source of releases, or of providers, takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from shared.api.provider import CORE
from shared.components import repositories
from shared.download import SourceError
from shared.download.ingest import IngestLimits, ingest
from shared.releases import sources
from shared.releases.sources.urls import from_env, from_url
from tests.support.provider_objects import provider

Add = Callable[[ModuleType, str, str], None]

RELEASES = """
from shared.download import File, ReleaseNotFound
from shared.download.access import Access
from shared.releases.sources import SourceType, UnusableUrl

class Shelf:
    def __init__(self, name, token):
        self.name, self.token = name, token

    def fetch(self, tag):
        if tag != "docker-ferrol-1-27-v1":
            raise ReleaseNotFound(tag, self.name)
        yield File("metadata.yaml", [self.token.encode()])

    def list(self):
        return ["docker-ferrol-1-27-v1"]

def _open(url, access):
    if not url.split_server().netloc:
        raise UnusableUrl("is no shelf://<name>")
    return Shelf(url.split().netloc, access.token)

SOURCE_TYPE = SourceType(("shelf",), _open, lambda env: Access(token=env.get("SHELF_TOKEN", "")))
"""

COMPONENTS = """
from dataclasses import dataclass
from shared.components.repositories import Files, RepositoryType

@dataclass
class Shelf:
    place: str
    token: str

    def default_version(self):
        return "v1.2.3"

    def fetch(self, version):
        return Files("metadata", f"components {version}")

REPOSITORY_TYPE = RepositoryType(
    lambda config: config.url.startswith("shelf:"),
    lambda config: Shelf(config.url, config.variables.get("shelf-token", "")),
)
"""


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """Adds a module to the folder of a package, for the time of the test."""
    added: list[tuple[ModuleType, str]] = []

    def add(package: ModuleType, name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        added.append((package, name))

    yield add
    for package, name in added:
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)


def test_release_source_is_found_by_the_scheme_that_its_module_declares(add: Add) -> None:
    with pytest.raises(SourceError, match="'shelf:' is not supported"):
        from_url("shelf://team")
    add(sources, "shelf", RELEASES)
    configured = from_env({"RELEASE_SOURCE": "shelf://team", "SHELF_TOKEN": "t0ken"})
    [file] = ingest(configured.fetch("docker-ferrol-1-27-v1"), IngestLimits())
    assert (file.name, file.data) == ("metadata.yaml", b"t0ken")
    assert from_url("SHELF://team", local=False).list() == ["docker-ferrol-1-27-v1"]
    with pytest.raises(SourceError, match=r"'unknown:' is not supported: must be .* shelf: URLs"):
        from_url("unknown://team")


def test_components_repository_is_found_by_the_url_that_its_module_serves(add: Add) -> None:
    core = provider(CORE, fetchConfig={"url": "shelf://team/core"})
    add(repositories, "shelf", COMPONENTS)
    found = repositories.open_repository(core, {"shelf-token": "t"}, [], "")
    assert (found.place, vars(found)["token"]) == ("shelf://team/core", "t")
    assert found.fetch(found.default_version()).components == "components v1.2.3"
