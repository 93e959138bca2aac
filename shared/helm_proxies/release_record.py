"""Helm's record of a release: a Secret for each revision in the release's namespace, as the helm program stores it.

So `helm list`, `helm history` and `helm get` work, and another installer finds the release as it would find its own.
The format is `pkg/release` and `pkg/storage/driver` of Helm 3, which Helm 4 keeps. The record also holds the rendered
manifest: a chart is rendered once for each revision, even if its output varies.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from shared import bounded_yaml, charts, memory_budget
from shared.addons.secret_record import pack, unpack
from shared.api.conditions import rfc3339
from shared.api.resources import SECRET
from shared.bounded_yaml import MAX_NESTING
from shared.charts import ArchiveError
from shared.kube import MANAGER, Client, Key, Object, dig
from shared.kube.client import METADATA_LIST, NO_VERSION
from shared.manifests import Manifest, Operation, delete_policies, hooks_of, identity, install_rank

DEPLOYED, FAILED, SUPERSEDED, UNINSTALLED, UNINSTALLING = (
    *("deployed", "failed", "superseded", "uninstalled", "uninstalling"),
)
PENDING_INSTALL, PENDING_UPGRADE, PENDING_ROLLBACK = "pending-install", "pending-upgrade", "pending-rollback"
_REMOVED: Final = (UNINSTALLED, UNINSTALLING)
_TYPE: Final = "helm.sh/release.v1"
_MAX_BYTES: Final = 740_000
"""The limit of a compressed record in bytes: a Secret has at most one MiB, and base64 adds a third."""
_TEXTS: Final = ("name", "version", "apiVersion", "appVersion", "kubeVersion", "description", "type", "home", "icon")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_WIDTH: Final = 1 << 20
"""Characters of a line, so that no text is folded."""
_DEPENDENCY: Final = ("name", "version", "repository", "condition", "alias")


class RecordError(ValueError):
    """A Secret is not Helm's record of a release."""


@dataclass(frozen=True)
class ReleaseRecord:
    """One revision of a release."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: Mapping[str, Any] = field(repr=False)
    """The chart as Helm stores it: `metadata`, `templates`, `values`, `files`."""
    config: Mapping[str, Any] = field(repr=False)
    """The values of the user, which may be confidential."""
    manifest: str = field(repr=False)
    hooks: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    first_deployed: str = ""
    last_deployed: str = ""
    description: str = ""
    notes: str = field(default="", repr=False)
    deleted: str = ""

    @property
    def chart_version(self) -> str:
        """The version of the chart."""
        return str(dig(self.chart, "metadata.version", ""))

    @property
    def is_pending(self) -> bool:
        """Whether an operation has begun and not ended."""
        return self.status.startswith("pending-")

    @property
    def begun_at(self) -> datetime | None:
        """When the last operation began; a time without a zone is in UTC. None if there is no time."""
        try:
            time = datetime.fromisoformat(self.last_deployed)
        except ValueError:
            return None
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    def begun(self, now: datetime) -> ReleaseRecord:
        """Returns the record of an operation that begins now."""
        time = rfc3339(now)
        return replace(self, first_deployed=self.first_deployed or time, last_deployed=time)

    def rollback(self, revision: int) -> ReleaseRecord:
        """Returns the record of a rollback to this revision, which is the next `revision`."""
        description = f"Rollback to {self.revision}"
        return replace(self, revision=revision, status=PENDING_ROLLBACK, description=description)

    @property
    def manifests(self) -> list[Manifest]:
        """The manifests of the objects and hooks, to be parsed."""
        hooks = [Manifest(str(hook.get("path") or "hook"), str(hook.get("manifest") or "")) for hook in self.hooks]
        return [Manifest("manifest", self.manifest), *hooks]

    @property
    def digest(self) -> str:
        """Identifies the manifests of the objects and hooks."""
        return hashlib.sha256(json.dumps([list(manifest) for manifest in self.manifests]).encode()).hexdigest()


@dataclass(frozen=True)
class History:
    """The stored revisions of a release: their numbers with their status, oldest first, and the newest record."""

    revisions: tuple[tuple[int, str], ...] = ()
    latest: ReleaseRecord | None = None
    deployed: ReleaseRecord | None = None
    """The deployed record; None if there is none."""

    @property
    def next_revision(self) -> int:
        """The number of the next revision."""
        return self.revisions[-1][0] + 1 if self.revisions else 1

    @property
    def is_installed(self) -> bool:
        """Whether the next operation of Helm is an upgrade."""
        return any(status not in _REMOVED for _, status in self.revisions)

    def operation_of(self, revision: int) -> Operation:
        """Returns the operation of Helm that a stored revision belongs to."""
        former = (status for number, status in self.revisions if number < revision)
        return "upgrade" if any(status not in _REMOVED for status in former) else "install"

    def unfinished(self, revision: int) -> list[int]:
        """Returns the earlier revisions whose status is `deployed` or pending."""
        return [
            number
            for number, status in self.revisions
            if number < revision and (status == DEPLOYED or status.startswith("pending-"))
        ]


def read_history(client: Client, name: str, namespace: str) -> History:
    """Reads the revisions of a release, and the contents of the newest and of the deployed one.

    Raises:
        RecordError: The newest record cannot be read.
        ApiError: The API server failed.
    """
    pages = client.pages(SECRET, namespace, selector=f"owner=helm,name={name}", accept=METADATA_LIST)
    revisions = revisions_of(item for page in pages for item in page["items"])
    if not revisions:
        return History()
    latest = read_record(client, name, namespace, revisions[-1][0])
    number = next((number for number, status in reversed(revisions) if status == DEPLOYED), 0)
    if latest is not None and number == latest.revision:
        deployed: ReleaseRecord | None = latest
    else:
        deployed = read_record(client, name, namespace, number) if number else None
    return History(tuple(revisions), latest, deployed)


def revisions_of(secrets: Iterable[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Returns the numbers of revisions with their status, oldest first, from the labels of Secrets."""
    labels = [dig(secret, "metadata.labels", {}) for secret in secrets]
    texts = [(str(each.get("version") or ""), str(each.get("status") or "")) for each in labels]
    return sorted((int(version), status) for version, status in texts if version.isdecimal() and len(version) < 10)


def read_record(client: Client, name: str, namespace: str, revision: int) -> ReleaseRecord | None:
    """Reads the record of a revision; None if there is none. Raises `RecordError` or `ApiError`."""
    secret = client.find(SECRET, Key(namespace, secret_name(name, revision)))
    return decode(secret) if secret is not None else None


def write_record(client: Client, record: ReleaseRecord, now: datetime, *, new: bool = False) -> None:
    """Stores a record: creates its Secret, or replaces the content of the existing one unless the record is `new`.

    Raises `ApiError`: `Conflict` if the Secret of a new record exists, because somebody else has made that revision.
    """
    secret = encode(record, now)
    if new:
        secret["metadata"]["resourceVersion"] = NO_VERSION
    client.apply(SECRET, secret, manager=MANAGER)


def delete_revision(client: Client, name: str, namespace: str, revision: int) -> None:
    """Deletes the record of a revision, if it exists. Raises `ApiError`."""
    client.delete(SECRET, Key(namespace, secret_name(name, revision)))


def secret_name(name: str, revision: int) -> str:
    """Returns the name of the Secret of a revision."""
    return f"sh.helm.release.v1.{name}.v{revision}"


def encode(record: ReleaseRecord, now: datetime) -> Object:
    """Returns the Secret of a record. A chart that does not fit is stored without its files, then without templates."""
    packed = ""
    for left_out in ((), ("files",), ("files", "templates")):
        chart = {name: value for name, value in record.chart.items() if name not in left_out}
        if packed := pack(_payload(replace(record, chart=chart)), _MAX_BYTES):
            break
    if not packed:
        raise RecordError(f"the manifest of release {record.name} is too large for the Secret of a Helm release")
    labels = {
        "name": record.name,
        "owner": "helm",
        "status": record.status,
        "version": str(record.revision),
        "modifiedAt": str(int(now.timestamp())),
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _TYPE,
        "metadata": {
            "name": secret_name(record.name, record.revision),
            "namespace": record.namespace,
            "labels": labels,
        },
        "data": {"release": base64.b64encode(packed.encode()).decode()},
    }


def _payload(record: ReleaseRecord) -> Object:
    return {
        "name": record.name,
        "namespace": record.namespace,
        "version": record.revision,
        "info": {
            "first_deployed": record.first_deployed,
            "last_deployed": record.last_deployed,
            "deleted": record.deleted,
            "description": record.description,
            "status": record.status,
            "notes": record.notes,
        },
        "chart": record.chart,
        "config": record.config,
        "manifest": record.manifest,
        "hooks": list(record.hooks),
    }


def decode(secret: Mapping[str, Any]) -> ReleaseRecord:
    """Returns the record in a Secret.

    Raises:
        RecordError: The Secret has no record, a record beyond the limits of `unpack`, or the record of another release.
    """
    place = f"Secret {dig(secret, 'metadata.name', '')}"
    try:
        inner = base64.b64decode(str(dig(secret, "data.release", "")), validate=True)
        raw = memory_budget.loads(inner) if inner[:1] == b"{" else unpack(inner.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{place} is not the record of a Helm release: {str(error)[:200]}") from error
    if _is_too_deep(raw):
        raise RecordError(f"{place} has a record that is nested deeper than {MAX_NESTING}")
    chart, config, info = dig(raw, "chart", {}), dig(raw, "config", {}), dig(raw, "info", {})
    hooks = [hook for hook in dig(raw, "hooks", []) if isinstance(hook, dict)]
    texts = {name: dig(raw, name, "") for name in ("name", "namespace", "manifest")}
    revision = dig(raw, "version")
    if not isinstance(revision, int) or not all(isinstance(text, str) for text in texts.values()):
        raise RecordError(f"{place} is not the record of a Helm release: a field has another type")
    found = (texts["namespace"], secret_name(texts["name"], revision))
    if found != (dig(secret, "metadata.namespace"), dig(secret, "metadata.name")):
        raise RecordError(f"{place} is the record of another release")
    return ReleaseRecord(
        **texts,
        revision=revision,
        status=_text(info, "status"),
        chart=chart,
        config=config,
        hooks=hooks,
        first_deployed=_text(info, "first_deployed"),
        last_deployed=_text(info, "last_deployed"),
        description=_text(info, "description"),
        notes=_text(info, "notes"),
        deleted=_text(info, "deleted"),
    )


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING):
        parents = [each for each in level if isinstance(each, dict | list)]
        if not parents:
            return False
        level = [child for each in parents for child in (each.values() if isinstance(each, dict) else each)]
    return True


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def new_record(
    name: str,
    namespace: str,
    history: History,
    *,
    chart: Mapping[str, Any],
    config: Mapping[str, Any],
    rendered: charts.RenderedChart,
) -> ReleaseRecord:
    """Returns the record of the next revision, before its objects are applied, and without its time."""
    upgrade = history.is_installed
    return ReleaseRecord(
        name=name,
        namespace=namespace,
        revision=history.next_revision,
        status=PENDING_UPGRADE if upgrade else PENDING_INSTALL,
        chart=chart,
        config=config,
        manifest=manifest_of(rendered.objects),
        hooks=[hook_of(obj) for obj in rendered.hooks],
        first_deployed=history.latest.first_deployed if upgrade and history.latest else "",
        description="Preparing upgrade" if upgrade else "Initial install underway",
        notes=rendered.notes,
    )


def manifest_of(objects: Iterable[Object]) -> str:
    """Returns objects as the text of a manifest, in Helm's install order."""
    return "".join(f"---\n{_dump(obj)}" for obj in sorted(objects, key=install_rank))


def hook_of(obj: Object) -> Object:
    """Returns a hook as Helm stores it."""
    annotations = dig(obj, "metadata.annotations", {})
    weight = str(annotations.get("helm.sh/hook-weight") or "0")
    who = identity(obj)
    hook: Object = {
        "name": who.name,
        "kind": who.kind,
        "path": f"hooks/{who.kind.lower()}-{who.name}.yaml",
        "manifest": _dump(obj),
        "events": sorted(hooks_of(obj)),
        "delete_policies": delete_policies(obj),
    }
    if weight.lstrip("-").isdecimal() and len(weight) < 10:
        hook["weight"] = int(weight)
    return hook


def _dump(obj: Object) -> str:
    text: str = yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes each value in full, and quotes texts that any version of YAML may read as another type."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
        style = None if plain else "|" if "\n" in text else '"'
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.text)


def chart_of(archive: bytes, name: str) -> Object:
    """Returns a chart as Helm stores it in a record, without subcharts.

    Args:
        archive: The chart archive.
        name: The name of the archive, for messages.

    Raises:
        ArchiveError: The archive or one of its YAML files is malformed.
    """
    members = charts.inspect(archive, name)
    charts_in_it = (path for path in members if path.endswith("/Chart.yaml"))
    root = min(charts_in_it, key=len, default="").removesuffix("Chart.yaml")
    own = {path.removeprefix(root): content for path, content in members.items() if path.startswith(root)}
    try:
        metadata = bounded_yaml.load(own.get("Chart.yaml", b""), untyped=True)
        values = bounded_yaml.load(own.get("values.yaml", b""))
    except bounded_yaml.YAMLError as error:
        raise ArchiveError(f"{name}: Chart.yaml or values.yaml: {error}") from error
    chart: Object = {
        "metadata": _metadata(metadata),
        "lock": None,
        "templates": _files(own, lambda path: path.startswith("templates/")),
        "values": values if isinstance(values, dict) else {},
        "schema": base64.b64encode(own["values.schema.json"]).decode() if "values.schema.json" in own else None,
        "files": _files(own, lambda path: path not in _PARTS and not path.startswith(("templates/", "charts/"))),
    }
    return chart


_PARTS: Final = ("Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json")


def _files(members: Mapping[str, bytes], wanted: Any) -> list[Object]:
    return [
        {"name": path, "data": base64.b64encode(content).decode()}
        for path, content in sorted(members.items())
        if wanted(path)
    ]


def _metadata(raw: Any) -> Object:
    """Returns the fields of Chart.yaml with the types that Helm gives them."""
    found: Object = {name: raw[name] for name in _TEXTS if isinstance(dig(raw, name), str)}
    for name in ("keywords", "sources"):
        if listed := [each for each in dig(raw, name, []) if isinstance(each, str)]:
            found[name] = listed
    if annotations := {key: value for key, value in dig(raw, "annotations", {}).items() if isinstance(value, str)}:
        found["annotations"] = annotations
    if dig(raw, "deprecated") == "true":
        found["deprecated"] = True
    dependencies = [
        {name: one[name] for name in _DEPENDENCY if isinstance(dig(one, name), str)}
        for one in dig(raw, "dependencies", [])
    ]
    if dependencies:
        found["dependencies"] = dependencies
    return found


def same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether values are equal for Helm, which reads all numbers as floats."""
    try:
        return _canonical(one) == _canonical(other)
    except (OverflowError, RecursionError):  # a number that is no float, or values that Helm would not read either
        return False


def _canonical(values: Any) -> str:
    return json.dumps(_with_floats(values), sort_keys=True)


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
