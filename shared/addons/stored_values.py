"""Where the values are kept that a release generated first: a Secret beside the ClusterAddon.

It is written before anything is applied, so that a retry finds what the first try used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import MANAGER
from shared.kube import Key, Object, dig, key_of, owned_by, owner_reference

from .first_values import FirstValues, GeneratedField, RenderedAddons
from .secret_record import delete_owned_secret, pack, unpack

_DATA = "values"
_MOST_BYTES = 900_000
"""Of a record, compressed; a Secret may have a MiB in all."""


@dataclass(frozen=True)
class StoredValues:
    """The record as it is stored. `version` is the Secret's, empty where there is none; `problem` hinders its use."""

    record: FirstValues = field(default_factory=FirstValues)
    version: str = ""
    problem: str = ""


def read_values(clients: Clients, addon: Object) -> StoredValues:
    key = _key(addon)
    secret = clients.management.find(SECRET, key)
    if secret is None:
        return StoredValues()
    if not owned_by(secret, addon):
        return StoredValues(
            problem=f"the release generates values, and Secret {key}, which is to keep them, is not owned by "
            f"ClusterAddon {key_of(addon).name}: delete or rename that Secret"
        )
    try:
        record = FirstValues.load(unpack(dig(secret, ("data", _DATA)) or ""))
    except ValueError as error:
        return StoredValues(
            problem=f"Secret {key}, which keeps the values that the release generated, is damaged ({error}): mend it, "
            "or delete it to have them generated anew"
        )
    return StoredValues(record, secret["metadata"]["resourceVersion"])


@dataclass(frozen=True)
class SaveValues:
    """Stores the record where it is new. Another process that was faster is a `Conflict`: then its values hold."""

    addon: Mapping[str, Any]
    stored: StoredValues
    record: FirstValues
    fields: Sequence[GeneratedField] = ()
    """Those that were found to be generated, to be told of."""

    @cached_property
    def _packed(self) -> str:
        return pack(self.record.dump())

    @property
    def too_large(self) -> bool:
        """Whether no Secret can have the record."""
        return len(self._packed) * 3 // 4 > _MOST_BYTES

    def execute(self, clients: Clients) -> None:
        if self.record == self.stored.record or not self.record.values or self.too_large:
            return
        key = _key(self.addon)
        data = {_DATA: self._packed}
        if self.stored.version:
            patch: Object = {"metadata": {"resourceVersion": self.stored.version}, "data": data}
            clients.management.patch(SECRET, key, patch, manager=MANAGER)
            return
        metadata = {**key._asdict(), "ownerReferences": [owner_reference(self.addon)]}
        clients.management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def save_effects(addon: Mapping[str, Any], kept: StoredValues, rendered: RenderedAddons) -> tuple[SaveValues, ...]:
    """The effect, where anything is or was generated."""
    return (SaveValues(addon, kept, rendered.record, rendered.fields),) if rendered.record.values else ()


def describe_fields(fields: Sequence[GeneratedField]) -> str:
    shown = "; ".join(str(each) for each in fields[:5])
    more = f"; and {len(fields) - 5} more" if len(fields) > 5 else ""
    return (
        f"{count_fields(fields)} each time that the release is rendered ({shown}{more}); the values that were "
        "generated first stay until the release changes"
    )


def count_fields(fields: Sequence[GeneratedField]) -> str:
    return f"{len(fields)} {'field differs' if len(fields) == 1 else 'fields differ'}"


@dataclass(frozen=True)
class DeleteValues:
    """Deletes the Secret, also where no garbage collector runs."""

    addon: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        delete_owned_secret(clients, _key(self.addon), self.addon)


def _key(addon: Mapping[str, Any]) -> Key:
    namespace, name = key_of(addon)
    return Key(namespace, f"{name}-generated")
