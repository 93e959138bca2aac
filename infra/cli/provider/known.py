"""Which providers are known by name, and what was meant by a name that is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from shared.api.provider import ProviderKind
from shared.components import catalog
from shared.components.errors import ComponentsError, UnknownProvider
from shared.kube import Object

from ..failures import Failure
from .requests import Wanted

_ALIKE = 0.75


def unknown(wanted: Iterable[Wanted]) -> Iterator[str]:
    """What is to be said of providers that nobody here knows a source of."""
    for one in wanted:
        try:
            catalog.lookup(one.kind, one.name)
        except ComponentsError as error:
            yield f"{error}; the functions' own configuration may know it"


def refuse_misspelled(wanted: Iterable[Wanted]) -> None:
    """Raises `Failure` for what is nearly the name of a provider that is known, or one of another kind."""
    for one in wanted:
        try:
            catalog.lookup(one.kind, one.name)
        except UnknownProvider:
            if meant := _meant(one.kind, one.name):
                hint = "`provider catalog` lists all; $CLUSTERCTL_CONFIG may name a file that knows more"
                raise Failure(f"--{one.kind.prefix} {one.name}: did you mean {meant}? {hint}") from None
        except ComponentsError:
            continue  # said by `unknown`


def _meant(kind: ProviderKind, name: str) -> str:
    listed = catalog.entries()
    if kinds := [other.prefix for other, known in listed if known == name]:
        return " or ".join(f"--{prefix} {name}" for prefix in kinds)
    return "".join(get_close_matches(name, [known for other, known in listed if other is kind], 1, _ALIKE))


def entries(kind: ProviderKind | None) -> Iterator[Object]:
    """Those that are built in, with the place that they come from as things are here. Raises `ComponentsError`."""
    for one, name in catalog.entries():
        if kind in (None, one):
            yield {"kind": one.kind, "name": name, "url": catalog.lookup(one, name)}
