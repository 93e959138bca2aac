"""Derives from the declarations of functions which kinds are listed and watched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.kube import Object, Resource
from shared.triggers import Triggers, Watch


@dataclass(frozen=True)
class InformerSpec:
    """The objects that one informer lists and watches, and the watches that it serves, with their functions' names.

    With `reference` the events contain a reference to the object instead of the object.
    """

    resource: Resource
    selector: str
    reference: bool
    watches: tuple[tuple[str, Watch], ...]
    namespace: str = ""
    """Lists and watches only this namespace; empty: all."""

    @property
    def metadata_only(self) -> bool:
        """Whether only metadata is requested: for Secrets, and where no watch needs more."""
        paths = [path for _, watch in self.watches for path in watch.fields]
        return is_secret(self.resource) or (self.reference and all(path.startswith("metadata.") for path in paths))

    @property
    def complete(self) -> bool:
        """Whether every object of the kind is listed, with its content."""
        return not self.selector and not self.metadata_only

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.kind}{group}" + (f" ({self.selector})" if self.selector else "") + where


def spec_for_crd(triggers: Iterable[Triggers], crd: Object) -> InformerSpec | None:
    """Returns the informer spec for the kind that a CRD defines.

    It serves the functions that watch the kind through their `Triggers.defined_kinds`. Returns None if there is no such
    function.
    """
    watches = [
        (declared.name, declared.defined_kinds.watch(resource))
        for declared in triggers
        if declared.defined_kinds is not None
        and (resource := declared.defined_kinds.defined(crd)) is not None
        and not declared.names(resource)
    ]
    return InformerSpec(watches[0][1].resource, "", False, tuple(watches)) if watches else None


def is_secret(resource: Resource) -> bool:
    """Returns whether this is the kind Secret."""
    return resource.group == "" and resource.kind == "Secret"


def informer_specs(triggers: Iterable[Triggers]) -> list[InformerSpec]:
    """Returns one spec for each combination of kind, selector and `reference` that functions watch.

    Raises `ValueError` for a watch of Secrets with their values.
    """
    watches: dict[tuple[Resource, str, bool], list[tuple[str, Watch]]] = {}
    for declared in triggers:
        for watch in declared.watches:
            if is_secret(watch.resource) and not watch.reference:
                raise ValueError(f"{declared.name}: Secrets are watched by reference only, set reference=True")
            watches.setdefault((watch.resource, watch.selector, watch.reference), []).append((declared.name, watch))
    return [InformerSpec(*combination, tuple(served)) for combination, served in watches.items()]
