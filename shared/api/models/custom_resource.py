"""The building blocks of CRDs: models with camelCase fields, and the parts of a CRD beside its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from shared.kube.resources import Resource


class Model(BaseModel):
    """A JSON object of the API; fields are `snake_case` in Python and `camelCase` in JSON.

    Optional fields default to None and are then absent, never null; a field without a default that may be None is
    required and nullable. The docstrings of fields are the descriptions that `kubectl explain` shows.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, use_attribute_docstrings=True
    )


PRESERVED: JsonDict = {"x-kubernetes-preserve-unknown-fields": True}


class OpenModel(Model):
    """A model that keeps unknown fields, whose schema is defined elsewhere."""

    model_config = ConfigDict(extra="allow", json_schema_extra=PRESERVED)


Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, as text: functions mostly compare and copy timestamps."""

KEYED_BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def rule(expression: str, message: str, **more: Any) -> dict[str, Any]:
    """Returns the schema of one validation rule, an expression in CEL; `more` are further fields of it."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message, **more}]}


def rules(*checks: tuple[str, str]) -> JsonDict:
    """Returns the schema of validation rules: expressions in CEL, each with its message."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message} for expression, message in checks]}


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: Literal["string", "boolean", "integer", "date"] = "string"
    wide: bool = False
    """Whether the column only appears with `-o wide`."""


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True)
class CustomResource:
    """The source of one CRD.

    `resource` is the stored version; `also` are further served versions with the same schema (conversion `None`).
    `root` is the model of the whole object; its docstring describes the kind.
    """

    resource: Resource
    root: type[Model]
    columns: tuple[Column, ...]
    short_name: str = ""
    also: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    of_core: bool = False
    """Whether a Cluster API core brings this kind, too."""
