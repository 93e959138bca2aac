"""Builds the files of a release from the sources of a cluster stack, which are laid out as for csctl.

    csctl.yaml                 provider, name and Kubernetes version
    cluster-class/             Helm chart
    cluster-addon/             Helm chart, or several in folders with clusteraddon.yaml beside it
    cluster-addon-values.yaml  and other files of a release: copied

In all of them `<< .ClusterClassVersion >>`, `<< .ClusterAddonVersion >>` and `<< .NodeImageVersion >>` are replaced by
versions. `node-image/` only counts by its hash, which is its version, because images are not built.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shared import bounded_yaml, charts
from shared.kube import dig
from shared.releases.metadata import API_VERSION, parse
from shared.releases.naming import STABLE, InvalidName, ReleaseName, StackVersion
from shared.releases.release import METADATA, STAGES, VALUES_TEMPLATE, Release
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource

from .folder import CONFIG, Files, assemble_release, fetch_files

CLASS, ADDON, NODE_IMAGE, HASHES = "cluster-class/", "cluster-addon/", "node-image/", "hashes.json"

_TOP_LEVEL = re.compile(r"cluster-addon-values\.yaml|clusteraddon\.yaml|node-images\.yaml|topology-[a-z0-9-]+\.yaml")
_PLACEHOLDER = re.compile(rb"<< (\.\w+) >>")
_VERSION_LINE = re.compile(rb"^version:.*$", re.MULTILINE)
_KUBERNETES = re.compile(r"v?(\d+\.\d+)\.\d+")


class BuildError(Exception):
    """The sources do not make a release; the message names the file."""


@dataclass(frozen=True)
class StackSources:
    """The sources of a cluster stack: files by path, and fields of csctl.yaml; `kubernetes` as "v1.27.3"."""

    provider: str
    name: str
    kubernetes: str
    files: Files

    def release(self, version: StackVersion) -> ReleaseName:
        """Returns the name of the release of a version."""
        minor = self.kubernetes.removeprefix("v").rpartition(".")[0]
        return ReleaseName(self.provider, self.name, minor, version)


@dataclass(frozen=True)
class Versions:
    """The versions of a release and its parts."""

    stack: StackVersion
    addon: StackVersion
    node_image: StackVersion


def load_stack(folder: Path) -> StackSources:
    """Reads the sources in a folder. Raises `BuildError` or `OSError`."""
    return parse_stack(read_folder(folder), folder)


def read_folder(folder: Path) -> Files:
    """Returns all files below a folder, by path. Raises `BuildError` or `OSError`."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BuildError(f"{path}: neither a file nor a folder; links are not supported in archives")
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files


def parse_stack(files: Files, folder: Path) -> StackSources:
    """Returns the sources that the files make; `folder` is for messages. Raises `BuildError`."""
    where = folder / CONFIG
    try:
        config = bounded_yaml.load(files[CONFIG], untyped=True)
    except KeyError:
        raise BuildError(f"{where}: missing") from None
    except bounded_yaml.YAMLError as error:
        raise BuildError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    fields = ("config.provider.type", "config.clusterStackName", "config.kubernetesVersion")
    provider, name, kubernetes = (_text(config, field, where) for field in fields)
    if not _KUBERNETES.fullmatch(kubernetes):
        raise BuildError(
            f"{where}: config.kubernetesVersion: must be a full version such as v1.27.3, found {kubernetes}"
        )
    stack = StackSources(provider, name, f"v{kubernetes.removeprefix('v')}", files)
    try:
        stack.release(StackVersion(0))
    except InvalidName as error:
        raise BuildError(f"{where}: {error}") from None
    for chart in (f"{CLASS}Chart.yaml", *(() if STAGES in files else (f"{ADDON}Chart.yaml",))):
        if chart not in files:
            raise BuildError(f"{folder / chart}: missing")
    return stack


def _text(config: Any, field: str, where: Path) -> str:
    value = dig(config, field) if isinstance(config, Mapping) else None
    if not isinstance(value, str) or not value:
        raise BuildError(f"{where}: {field}: missing, or not a string")
    return value


# -- versions --------------------------------------------------------------------------------------------------------


def custom_versions(stack: str, addon: str = "", node_image: str = "") -> Versions:
    """Returns given versions; versions of parts default to the version of the stack. Raises `InvalidName`."""
    return Versions(
        StackVersion.parse(stack), StackVersion.parse(addon or stack), StackVersion.parse(node_image or stack)
    )


def hash_versions(stack: StackSources) -> Versions:
    """Returns one version for all parts, from the hash of the sources."""
    version = StackVersion(0, "sha", hashes(stack.files)["clusterStack"][:7])
    return Versions(version, version, version)


def next_versions(stack: StackSources, source: Source) -> Versions:
    """Returns the versions after the newest stable release in `source`; unchanged parts keep their version.

    Raises:
        BuildError: Nothing has changed since that release, or the folder does not exist.
        SourceError: The source fails.
        MetadataError: The metadata of that release is unusable.
    """
    if isinstance(source, FolderSource) and not source.root.is_dir():
        raise BuildError(f"{source.root}: the folder does not exist; create an empty one for a first release")
    names = [name for tag in source.list() if (name := ReleaseName.from_class_name(tag))]
    stack_name = stack.release(StackVersion(1)).stack
    stable = [name for name in names if name.stack == stack_name and name.version.channel == STABLE]
    if not stable:
        return Versions(StackVersion(1), StackVersion(1), StackVersion(1))
    last = max(stable, key=lambda name: name.version)
    files = fetch_files(source, last.tag)
    before, now = _hashes_of(files), hashes(stack.files)
    if before.get("clusterStack") == now["clusterStack"]:
        raise BuildError(f"nothing has changed since {last}")
    metadata = parse(files.get(METADATA, b""), last.tag)

    def after(version: StackVersion, *keys: str) -> StackVersion:
        return StackVersion(version.number + any(before.get(key) != now.get(key) for key in keys))

    return Versions(
        StackVersion(last.version.number + 1),
        after(metadata.cluster_addon, "clusterAddonDir", "clusterAddonValues"),
        after(metadata.node_image or StackVersion(1), "nodeImageDir"),
    )


def hashes(files: Files) -> dict[str, str]:
    """Returns the content of hashes.json: hashes of the sources before placeholders are replaced."""
    folders = {"clusterStack": "", "clusterAddonDir": ADDON, "nodeImageDir": NODE_IMAGE}
    parts = {key: {path: data for path, data in files.items() if path.startswith(top)} for key, top in folders.items()}
    parts["clusterAddonValues"] = {path: files[path] for path in (VALUES_TEMPLATE, STAGES) if path in files}
    return {key: _hash(part) for key, part in sorted(parts.items()) if part}


def _hash(files: Files) -> str:
    lines = (f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(files.items()))
    digest = hashlib.sha256("".join(lines).encode()).digest()
    return re.sub(r"[^a-z0-9]", "", base64.b64encode(digest).decode().lower())


def _hashes_of(files: Files) -> Mapping[str, Any]:
    """Returns the content of a release's hashes.json; empty if it is missing, so that everything counts as changed."""
    try:
        found = json.loads(files[HASHES])
    except (KeyError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# -- files -----------------------------------------------------------------------------------------------------------


def build(stack: StackSources, versions: Versions) -> tuple[Release, Files]:
    """Returns the release and its files. Raises `BuildError` or `InvalidRelease`."""
    name = stack.release(versions.stack)
    files = {path: _filled(path, data, versions) for path, data in stack.files.items()}
    addon = _below(files, ADDON)
    if STAGES not in files:
        addon = _chart(f"{name.stack}-cluster-addon", addon, versions.addon, ADDON)
    made = {path: data for path, data in files.items() if _TOP_LEVEL.fullmatch(path)} | {
        METADATA: _metadata(stack, versions),
        HASHES: (json.dumps(hashes(stack.files), indent=2) + "\n").encode(),
        name.class_chart: charts.pack(
            _chart(f"{name.stack}-cluster-class", _below(files, CLASS), versions.stack, CLASS)
        ),
        name.addon_chart(versions.addon): charts.pack(addon),
    }
    return assemble_release(name, made), made


def _filled(path: str, data: bytes, versions: Versions) -> bytes:
    """Returns a source file with its placeholders replaced; archives are unchanged."""
    if path.endswith(".tgz"):
        return data
    known = {
        b".ClusterClassVersion": versions.stack,
        b".ClusterAddonVersion": versions.addon,
        b".NodeImageVersion": versions.node_image,
    }

    def value(match: re.Match[bytes]) -> bytes:
        if match[1] not in known:
            line = data.count(b"\n", 0, match.start()) + 1
            names = ", ".join(key.decode() for key in known)
            raise BuildError(f"{path}:{line}: {match[0].decode()}: unknown placeholder, must be one of {names}")
        return known[match[1]].dotted.encode()

    return _PLACEHOLDER.sub(value, data)


def _below(files: Files, top: str) -> dict[str, bytes]:
    return {path.removeprefix(top): data for path, data in sorted(files.items()) if path.startswith(top)}


def _chart(name: str, files: Files, version: StackVersion, source: str) -> dict[str, bytes]:
    """Returns the files of a chart below a folder of its name, with its version set."""
    line = f"version: {version.dotted}".encode()
    text, count = _VERSION_LINE.subn(line, files["Chart.yaml"])
    if count != 1:
        raise BuildError(f"{source}Chart.yaml: must have one line with its version, found {count}")
    return {f"{name}/{path}": data for path, data in (dict(files) | {"Chart.yaml": text}).items()}


def _metadata(stack: StackSources, versions: Versions) -> bytes:
    parts = {"clusterAddon": versions.addon.dotted, "nodeImage": versions.node_image.dotted}
    listed = {"clusterStack": versions.stack.dotted, "kubernetes": stack.kubernetes, "components": parts}
    return yaml.safe_dump({"apiVersion": API_VERSION, "versions": listed}, sort_keys=False).encode()
