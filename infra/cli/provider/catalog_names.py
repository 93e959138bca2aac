"""Names of providers in the catalog, and suggestions for misspelled ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from shared.api.provider import ProviderKind
from shared.components import catalog
from shared.components.errors import ComponentsError, UnknownProvider
from shared.kube import Object

from ..failures import Failure
from .requests import ProviderRequest

_MIN_SIMILARITY = 0.75


def notes_on_unknown(requests: Iterable[ProviderRequest]) -> Iterator[str]:
    """Yields a note for each provider that neither catalog nor configuration has a source for."""
    for one in requests:
        try:
            catalog.lookup(one.kind, one.name)
        except ComponentsError as error:
            yield f"{error}; the functions' own configuration may have a source"


def reject_misspelled(requests: Iterable[ProviderRequest]) -> None:
    """Rejects names that are close to a name in the catalog, or that the catalog has for another kind.

    Raises:
        Failure: A name is probably misspelled.
    """
    for one in requests:
        try:
            catalog.lookup(one.kind, one.name)
        except UnknownProvider:
            if meant := _suggestion(one.kind, one.name):
                hint = "`provider catalog` lists all names; a file in $CLUSTERCTL_CONFIG may add some"
                raise Failure(f"--{one.kind.prefix} {one.name}: did you mean {meant}? {hint}") from None
        except ComponentsError:
            continue  # `notes_on_unknown` reports it


def _suggestion(kind: ProviderKind, name: str) -> str:
    listed = catalog.built_in_providers()
    if kinds := [other.prefix for other, known in listed if known == name]:
        return " or ".join(f"--{prefix} {name}" for prefix in kinds)
    return "".join(get_close_matches(name, [known for other, known in listed if other is kind], 1, _MIN_SIMILARITY))


def list_known(kind: ProviderKind | None) -> Iterator[Object]:
    """Yields kind, name and URL of the built-in providers, of one kind or of all, with the URL that applies here.

    Raises:
        ComponentsError: The configuration cannot be read.
    """
    for one, name in catalog.built_in_providers():
        if kind in (None, one):
            yield {"kind": one.kind, "name": name, "url": catalog.lookup(one, name)}
