"""The settings of an installation: the source of a value, and that all settings are declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.generate.__main__ import PROJECT
from shared.settings import FOLDER, GROUPS, Settings

OF_THE_PROCESS = {
    "METRICS_PORT": "a variable of the Deployment",
    "K_SINK": "the address that a SinkBinding sets",
    "K_CA_CERTS": "the authorities that a SinkBinding sets",
    "KUBECONFIG": "of a local run",
    "KUBERNETES_SERVICE_HOST": "set in every pod",
    "KUBERNETES_SERVICE_PORT": "set in every pod",
    "LOG_FORMAT": "a variable of the Deployment",
    "LOG_LEVEL": "a variable of the Deployment",
    "THREADS": "a variable of the Deployment",
    "WORKERS": "a variable of the Deployment",
    "HELM": "part of the image",
    "CLUSTERCTL_CONFIG": "of a local run; mounted in a cluster",
    "KIND_RUNTIME": "of a local run",
    "CAPI_FUNCTIONS_DATA": "of a local run",
    "CAPI_FUNCTIONS_OWNER": "of a local run",
    "AWS_ENDPOINT_URL": "boto3's own",
    "AWS_ENDPOINT_URL_S3": "boto3's own",
}
"""Environment variables that are not settings of an installation, with the reason."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "RELEASE_SOURCE").write_text("https://releases.example.com\n")
    return tmp_path


def test_file_is_read_without_trailing_line_break(folder: Path) -> None:
    assert Settings({FOLDER: str(folder)})["RELEASE_SOURCE"] == "https://releases.example.com"


def test_environment_variable_overrides_file(folder: Path) -> None:
    settings = Settings({FOLDER: str(folder), "RELEASE_SOURCE": "/releases"})
    assert settings["RELEASE_SOURCE"] == "/releases"


def test_changed_file_is_read_at_once(folder: Path) -> None:
    settings = Settings({FOLDER: str(folder)})
    (folder / "RELEASE_SOURCE").write_text("https://other.example.com")
    assert settings["RELEASE_SOURCE"] == "https://other.example.com"
    (folder / "RELEASE_SOURCE").unlink()
    assert settings.get("RELEASE_SOURCE") is None
    assert "RELEASE_SOURCE" not in settings


@pytest.mark.parametrize("name", ["PATH", "../RELEASE_SOURCE", "", "."])
def test_only_declared_settings_are_read_from_the_folder(folder: Path, name: str) -> None:
    (folder / "PATH").write_text("/somewhere")
    (folder / "inner").mkdir()
    assert Settings({FOLDER: str(folder / "inner")}).get(name) is None
    assert Settings({FOLDER: str(folder)}).get(name) is None


def test_settings_are_a_mapping(folder: Path) -> None:
    settings = Settings({FOLDER: str(folder), "GITHUB_TOKEN": "t"})
    assert dict(settings) == {
        FOLDER: str(folder),
        "GITHUB_TOKEN": "t",
        "RELEASE_SOURCE": "https://releases.example.com",
    }
    assert len(settings) == 3


def test_every_setting_that_code_reads_is_declared() -> None:
    """A declared setting is documented, mounted and named in messages."""
    sources = [path for folder in ("shared", "functions") for path in (PROJECT / folder).rglob("*.py")]
    lookup = re.compile(r'(?:env|environ|SETTINGS|settings)(?:\.get\(|\[)"([A-Z][A-Z0-9_]+)"')
    read = {name for path in sources for name in lookup.findall(path.read_text())}
    declared = {key for group in GROUPS for key, _ in group.keys}
    assert read - declared - {*OF_THE_PROCESS} == set()


def test_every_declared_setting_is_read() -> None:
    text = "".join(path.read_text() for folder in ("shared", "functions") for path in (PROJECT / folder).rglob("*.py"))
    built = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}  # names put together from the scheme
    declared = {key for group in GROUPS for key, _ in group.keys} - built
    assert [key for key in declared if text.count(key) < 2] == []


def test_secret_settings_are_keys_of_their_group() -> None:
    assert all(group.secret <= {key for key, _ in group.keys} for group in GROUPS)
