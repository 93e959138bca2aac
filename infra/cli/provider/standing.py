"""How providers stand: what is installed, what is asked for, and why they are not ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.api import cluster
from shared.api import provider as provider_api
from shared.api.conditions import READY, get_condition
from shared.api.provider import KINDS
from shared.kube import Client, NotServed, Object, deleting, dig, key_of

from ..failures import Failure
from ..text import plain

_HEADINGS = ("KIND", "NAME", "NAMESPACE", "INSTALLED", "WANTED", "CONTRACT", "READY", "REASON")


@dataclass(frozen=True)
class Standing:
    """`wanted` is empty where any version will do; `ready` is True, False or Unknown."""

    kind: str
    name: str
    namespace: str
    installed: str
    wanted: str
    contract: str
    ready: str
    reason: str
    message: str

    def dump(self) -> Object:
        return asdict(self)

    @property
    def why(self) -> str:
        return plain(f"{self.reason}: {self.message}" if self.message else self.reason)


def providers(client: Client) -> list[Object]:
    """All in the cluster, in the order of installation. Raises `Failure` where it does not know of such."""
    found: list[Object] = []
    for kind in KINDS:
        try:
            found += sorted(client.list(kind.resource), key=key_of)
        except NotServed as error:
            hint = "`kubectl apply -k infra/crds` installs the kinds"
            raise Failure(f"the cluster does not serve {kind.resource.plural}.{kind.resource.group}; {hint}") from error
    return found


def standing(provider: Mapping[str, Any]) -> Standing:
    condition = get_condition(dig(provider, "status.conditions"), READY) or {}
    ready, reason = condition.get("status", "Unknown"), condition.get("reason", "NotLookedAt")
    message = condition.get("message") or ""
    if condition and condition.get("observedGeneration", 0) < dig(provider, "metadata.generation", 0):
        ready, reason, message = "Unknown", "Changed", "what is asked for now was not looked at yet"
    if cluster.is_paused(provider):
        reason, message = "Paused", "nothing happens until it is not"
    if deleting(provider):
        why = get_condition(dig(provider, "status.conditions"), "Deleting") or {}
        ready, reason, message = "False", why.get("reason") or "Deleting", why.get("message") or ""
    key = key_of(provider)
    return Standing(
        provider["kind"],
        key.name,
        key.namespace,
        provider_api.installed_version(provider),
        provider_api.spec_version(provider),
        dig(provider, "status.contract", ""),
        ready,
        reason,
        message,
    )


def table(found: Iterable[Standing]) -> list[str]:
    """Lines of columns; the last one is as wide as it needs to be."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for one in found:
        why = "" if one.ready == "True" and one.reason == "Ready" else one.why
        cells = (one.kind, one.name, one.namespace, one.installed, one.wanted or "newest", one.contract, one.ready)
        rows.append((*(plain(cell) or "-" for cell in cells), why))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    return ["   ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]
