"""Where the values are kept that a release generated first: a Secret beside the ClusterAddon.

It is written before anything is applied, so that a retry finds what the first try used.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.addons.generated import Field, Record, Rendered
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import MANAGER
from shared.kube import Key, Object, dig, key_of, owned_by, owner_reference
from shared.releases.naming import ReleaseName
from shared.runtime.verdict import Verdict

CONDITION = "GeneratedValuesKept"
REASON = "RenderNotRepeatable"

_DATA = "values"
_MOST_BYTES = 900_000
"""Of a record, compressed; a Secret may have a MiB in all."""
_MOST_UNPACKED = 64 * 2**20


@dataclass(frozen=True)
class Kept:
    """The record as it is stored. `version` is the Secret's, empty where there is none; `problem` hinders its use."""

    record: Record = field(default_factory=Record)
    version: str = ""
    problem: str = ""


def read(clients: Clients, addon: Object) -> Kept:
    key = _key(addon)
    secret = clients.management.find(SECRET, key)
    if secret is None:
        return Kept()
    if not owned_by(secret, addon):
        return Kept(
            problem=f"the release generates values, and Secret {key}, which is to keep them, is not owned by "
            f"ClusterAddon {key_of(addon).name}: delete or rename that Secret"
        )
    version = secret["metadata"]["resourceVersion"]
    try:
        packed = base64.b64decode(dig(secret, ("data", _DATA)) or "", validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            return Kept(Record.load(json.loads(stream.read(_MOST_UNPACKED))), version)
    except (OSError, ValueError, EOFError):
        return Kept(version=version)  # damaged: begin anew


@dataclass(frozen=True)
class Keep:
    """Stores the record where it is new. Another process that was faster is a `Conflict`: then its values hold."""

    addon: Mapping[str, Any]
    kept: Kept
    record: Record
    fields: Sequence[Field] = ()
    """Those that were found to be generated, to be told of."""

    def execute(self, clients: Clients) -> None:
        if self.record == self.kept.record or not self.record.values:
            return
        packed = gzip.compress(json.dumps(self.record.dump(), separators=(",", ":")).encode(), 6, mtime=0)
        if len(packed) > _MOST_BYTES:
            return
        key = _key(self.addon)
        data = {_DATA: base64.b64encode(packed).decode()}
        if self.kept.version:
            patch: Object = {"metadata": {"resourceVersion": self.kept.version}, "data": data}
            clients.management.patch(SECRET, key, patch, manager=MANAGER)
            return
        metadata = {**key._asdict(), "ownerReferences": [owner_reference(self.addon)]}
        clients.management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def keep(addon: Mapping[str, Any], kept: Kept, rendered: Rendered) -> tuple[Keep, ...]:
    """The effect, where anything is or was generated."""
    return (Keep(addon, kept, rendered.record, rendered.fields),) if rendered.record.values else ()


def report(verdict: Verdict, name: ReleaseName | None, effect: Keep | None) -> None:
    """Says which fields are generated, and none of their values."""
    if effect is None or not effect.fields:
        verdict.drop(CONDITION)
        return
    verdict.true(CONDITION, REASON, f"{name}: {explain(effect.fields)}", tell="Normal")


def explain(fields: Sequence[Field]) -> str:
    shown = "; ".join(str(each) for each in fields[:5])
    more = f"; and {len(fields) - 5} more" if len(fields) > 5 else ""
    are = "field differs" if len(fields) == 1 else "fields differ"
    return (
        f"{len(fields)} {are} each time that the release is rendered ({shown}{more}); the values that were generated "
        "first stay until the release changes"
    )


@dataclass(frozen=True)
class Forget:
    """Deletes the Secret, also where no garbage collector runs."""

    addon: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        secret = clients.management.find(SECRET, _key(self.addon))
        if secret is not None and owned_by(secret, self.addon):
            clients.management.delete(SECRET, key_of(secret), uid=secret["metadata"]["uid"])


def _key(addon: Mapping[str, Any]) -> Key:
    namespace, name = key_of(addon)
    return Key(namespace, f"{name}-generated")
