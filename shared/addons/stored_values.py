"""Stores the values that charts generate (passwords, certificates), so that later renderings reuse them.

They are in a Secret in the ClusterAddon's namespace. It is written before anything is applied, so that a retry uses the
same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from shared.api.conditions import abridged
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import MANAGER, Object, dig, key_of, owned_by, owner_reference

from .first_values import FirstValues, GeneratedField, RenderedAddons
from .secret_record import pack, secret_key, unpack

_key = partial(secret_key, purpose="generated")

_DATA = "values"
_MAX_BYTES = 900_000
"""The limit of the compressed record, in bytes; a Secret has at most one MiB."""


@dataclass(frozen=True)
class StoredValues:
    """The stored values, and the `resource_version` of their Secret. `problem` says why the Secret cannot be used."""

    record: FirstValues = field(default_factory=FirstValues)
    resource_version: str = ""
    problem: str = ""


def read_values(clients: Clients, addon: Object) -> StoredValues:
    """Reads the stored values of an addon; raises `ApiError` if the Secret cannot be read."""
    key = _key(addon)
    secret = clients.management.find(SECRET, key)
    if secret is None:
        return StoredValues()
    if not owned_by(secret, addon):
        return StoredValues(
            problem=f"Secret {key} should hold the values that the release generates, but is not owned by "
            f"ClusterAddon {key_of(addon).name}: delete that Secret, or recreate it under another name"
        )
    try:
        record = FirstValues.load(unpack(dig(secret, ("data", _DATA)) or ""))
    except ValueError as error:
        return StoredValues(
            problem=f"Secret {key} with the values that the release generated is damaged ({error}): repair it, "
            "or delete it to have new values generated"
        )
    return StoredValues(record, secret["metadata"]["resourceVersion"])


@dataclass(frozen=True)
class SaveValues:
    """An effect that stores new values.

    `execute` raises `Conflict` if another process has stored values in the meantime; the retry uses those.
    """

    addon: Mapping[str, Any]
    stored: StoredValues
    record: FirstValues
    fields: Sequence[GeneratedField] = ()
    """The generated fields, for the status."""

    @cached_property
    def _packed(self) -> str:
        return pack(self.record.dump(), _MAX_BYTES)

    @property
    def too_large(self) -> bool:
        """Whether the values do not fit into a Secret."""
        return not self._packed

    def execute(self, clients: Clients) -> None:
        """Writes the Secret if the values are new and fit into it."""
        if self.record == self.stored.record or not self.record.values or self.too_large:
            return
        key = _key(self.addon)
        data = {_DATA: self._packed}
        if self.stored.resource_version:
            patch: Object = {"metadata": {"resourceVersion": self.stored.resource_version}, "data": data}
            clients.management.patch(SECRET, key, patch, manager=MANAGER)
            return
        metadata = {**key._asdict(), "ownerReferences": [owner_reference(self.addon)]}
        clients.management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def save_effects(addon: Mapping[str, Any], stored: StoredValues, rendered: RenderedAddons) -> tuple[SaveValues, ...]:
    """Returns the effect that stores the values; none if the release generates no values."""
    return (SaveValues(addon, stored, rendered.record, rendered.fields),) if rendered.record.values else ()


def describe_fields(fields: Sequence[GeneratedField]) -> str:
    """Returns a sentence about the generated fields, without values; names the first five."""
    listed = abridged([*map(str, fields)], 5)
    return (
        f"{fields_differ(fields)} each time that the release is rendered ({listed}); the first "
        "values stay until the version of the addons changes"
    )


def fields_differ(fields: Sequence[GeneratedField]) -> str:
    """Returns `1 field differs` or `n fields differ`."""
    return f"{len(fields)} {'field differs' if len(fields) == 1 else 'fields differ'}"
