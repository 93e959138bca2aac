"""The status of providers for `provider list`: installed and wanted version, and the reason if one is not ready."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.api import cluster
from shared.api import provider as provider_api
from shared.api.conditions import READY, get_condition
from shared.api.provider import KINDS
from shared.kube import Client, NotServed, Object, deleting, dig, key_of

from ..failure import Failure
from ..text import plain
from .requests import parse_kind

FAILURES = frozenset(
    {
        "IncorrectVersionFormat",
        "UnsupportedProviderDowngradeReason",
        "IncorrectCoreProviderNameReason",
        "InvalidProviderName",
        "FetchConfigValidationError",
        "ReferencedObjectMissing",
        "InvalidGithubTokenError",
        "MoreThanOneExists",
        "RequestRefused",
        "UnknownProvider",
        "ComponentsFetchError",
        "CAPIVersionIncompatibility",
        "ComponentsCustomizationError",
        "ComponentsPatchError",
        "ComponentsImageOverrideError",
        "ComponentsUpgradeError",
        "InvalidAnnotation",
        "CertificateSecretTaken",
        "TooManyObjects",
    }
)
"""The reasons of conditions that end only with a change of the provider, or of an object that it names."""
_BUSY = re.compile(r"answers with HTTP (?:408|429|5\d\d)\b")
WITHOUT_NETWORK = (
    "without internet access: `capi-functions provider export` and `kubectl apply --server-side` bring the components "
    "(docs/providers.md, Sites without internet access); for a local run `capi-functions local package` and "
    "`capi-functions up --from cluster-api.zip` bring them with the managers"
)
"""The ways to install providers without their sources."""


@dataclass(frozen=True)
class ProviderSummary:
    """The status of one provider; `wanted` is empty for the newest version, `ready` is True, False or Unknown."""

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
        """Returns the status for JSON."""
        return asdict(self)

    @property
    def why(self) -> str:
        """Reason and message of the condition `Ready`, in one line."""
        return plain(f"{self.reason}: {self.message}" if self.message else self.reason)

    @property
    def has_failed(self) -> bool:
        """Whether the provider's present spec has failed, so that waiting does not make it ready.

        A busy source may deliver soon.
        """
        return self.ready == "False" and self.reason in FAILURES and not _BUSY.search(self.message)

    @property
    def lacks_components(self) -> bool:
        """Whether the provider's source has not delivered components."""
        return self.has_failed and self.reason == "ComponentsFetchError"


def list_providers(client: Client, namespace: str = "", selector: str = "") -> list[Object]:
    """Lists the providers, by default all of the cluster, in the order of installation.

    Raises:
        Failure: The cluster does not serve the provider kinds.
    """
    found: list[Object] = []
    for kind in KINDS:
        try:
            found += sorted(client.list(kind.resource, namespace, selector=selector), key=key_of)
        except NotServed as error:
            hint = "`kubectl apply -k infra/manifests/crds` installs the kinds"
            raise Failure(f"the cluster does not serve {kind.resource.plural}.{kind.resource.group}; {hint}") from error
    return found


def status_of(provider: Mapping[str, Any]) -> ProviderSummary:
    """Returns the status of a provider object."""
    condition = get_condition(dig(provider, "status.conditions"), READY) or {}
    ready, reason = condition.get("status", "Unknown"), condition.get("reason", "NotLookedAt")
    message = condition.get("message") or ""
    if condition and condition.get("observedGeneration", 0) < dig(provider, "metadata.generation", 0):
        ready, reason, message = "Unknown", "Changed", "the present spec is not reconciled yet"
    if cluster.is_paused(provider):
        reason, message = "Paused", f"nothing changes until the annotation {cluster.PAUSED_ANNOTATION} is removed"
    if deleting(provider):
        why = get_condition(dig(provider, "status.conditions"), "Deleting") or {}
        ready, reason, message = "False", why.get("reason") or "Deleting", why.get("message") or ""
    key = key_of(provider)
    return ProviderSummary(
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


def select_providers(client: Client, kind: str, name: str) -> list[Object]:
    """Returns the providers of a kind and name.

    Args:
        client: The client of the management cluster.
        kind: A kind such as `infrastructure`, or `all`; then `name` is ignored.
        name: The name of the provider; empty for all of the kind.

    Raises:
        Failure: There is no such provider.
    """

    providers = list_providers(client)
    if kind == "all":
        return providers
    api_kind = parse_kind(kind).kind
    selected = [
        provider for provider in providers if provider["kind"] == api_kind and name in ("", key_of(provider).name)
    ]
    if not selected:
        raise Failure(
            f"the cluster has no {f'{api_kind} {name}'.rstrip()}; `capi-functions provider list` lists its providers"
        )
    return selected
