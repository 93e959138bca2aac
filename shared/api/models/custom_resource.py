"""The vocabulary of a CRD: models with camelCase fields, and what a CRD says beside its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from shared.kube.resources import Resource


class Model(BaseModel):
    """A JSON object of the API, `snake_case` here and `camelCase` there.

    Optional fields default to None and are then absent, never null; a field without default that may be None becomes
    required and nullable. Docstrings below fields are the descriptions that `kubectl explain` shows.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, use_attribute_docstrings=True
    )


PRESERVED: JsonDict = {"x-kubernetes-preserve-unknown-fields": True}


class OpenModel(Model):
    """One that keeps fields it does not name: the schema of them is somebody else's."""

    model_config = ConfigDict(extra="allow", json_schema_extra=PRESERVED)


Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, kept as text: functions compare and copy it, they seldom calculate with it."""

KEYED_BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


@dataclass(frozen=True)
class Column:
    """What `kubectl get` shows."""

    name: str
    path: str
    type: Literal["string", "boolean", "integer", "date"] = "string"
    wide: bool = False
    """Only with `-o wide`."""


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True)
class CustomResource:
    """All that a CRD is generated from.

    `resource` is the stored version; `also` are further served versions of the same schema, told apart by nothing but
    their name (conversion `None`). `root` is the whole object; its docstring describes the kind.
    """

    resource: Resource
    root: type[Model]
    columns: tuple[Column, ...]
    short_name: str = ""
    also: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
