"""The label selectors of Kubernetes."""

from __future__ import annotations

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from .custom_resource import Model

_ATOMIC_MAP: JsonDict = {"x-kubernetes-map-type": "atomic"}


class LabelSelectorRequirement(Model):
    """A requirement of a label selector."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: list[str] | None = Field(None, json_schema_extra={"x-kubernetes-list-type": "atomic"})


class LabelSelector(Model):
    """Selects objects by their labels; all requirements must hold. An empty selector selects all objects."""

    model_config = ConfigDict(json_schema_extra=_ATOMIC_MAP)

    match_expressions: list[LabelSelectorRequirement] | None = Field(
        None, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    match_labels: dict[str, str] | None = None
