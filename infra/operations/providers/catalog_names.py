"""Names of providers in the catalog, and suggestions for misspelled ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from shared.api.provider import ProviderKind
from shared.components import catalog
from shared.components.errors import ComponentsError, UnknownProvider
from shared.kube import Object

from ..failure import Failure
from .requests import ProviderRequest

_MIN_SIMILARITY = 0.75


def notes_on_unknown(requests: Iterable[ProviderRequest]) -> Iterator[str]:
    """Yields a note for each provider for which this machine's catalog gives no source.

    This catalog is the built-in list with the configuration on this machine.
    """
    for request in requests:
        try:
            catalog.lookup(request.kind, request.name)
        except ComponentsError as error:
            yield f"{error}; the functions' own configuration may have a source"


def reject_misspelled(requests: Iterable[ProviderRequest]) -> None:
    """Rejects unknown names that resemble a built-in name of the kind, or that are built-in names of another kind.

    Raises:
        Failure: A name is probably misspelled.
    """
    for request in requests:
        try:
            catalog.lookup(request.kind, request.name)
        except UnknownProvider:
            if suggestion := _suggestion(request.kind, request.name):
                hint = "`provider catalog` lists all names; a file in $CLUSTERCTL_CONFIG may add some"
                raise Failure(f"--{request.kind.prefix} {request.name}: did you mean {suggestion}? {hint}") from None
        except ComponentsError:
            continue  # `notes_on_unknown` reports it


def _suggestion(kind: ProviderKind, name: str) -> str:
    """Returns the options or the name that the user may have meant; empty if nothing is similar."""
    built_in = catalog.built_in_providers()
    if options := [f"--{other.prefix} {name}" for other, known in built_in if known == name]:
        return " or ".join(options)
    return "".join(get_close_matches(name, [known for other, known in built_in if other is kind], 1, _MIN_SIMILARITY))


def list_built_in(kind: ProviderKind | None) -> Iterator[Object]:
    """Yields kind, name and URL of each built-in provider; with `kind`, of this kind only.

    The URL comes from the configuration on this machine if it has one for the provider.

    Raises:
        ComponentsError: The configuration cannot be read.
    """
    for known, name in catalog.built_in_providers():
        if kind in (None, known):
            yield {"kind": known.kind, "name": name, "url": catalog.lookup(known, name)}
