"""What annotations of ours say about one provider, besides those of every rollout (`shared.workload.policy`).

capi-functions.dev/certificates  own or cert-manager: who issues the serving certificates of its webhooks; without it
                                 cert-manager, where its kinds are served
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.kube import dig
from shared.workload.policy import PREFIX, PolicyError

CERTIFICATES = f"{PREFIX}certificates"


def stated(provider: Mapping[str, Any]) -> dict[str, str]:
    """All annotations under our prefix."""
    annotations = dig(provider, "metadata.annotations", {})
    return {name: value for name, value in annotations.items() if name.startswith(PREFIX)}


def certificates_by_us(provider: Mapping[str, Any]) -> bool | None:
    """Whether they are to be ours; None where the provider does not say. Raises `PolicyError`."""
    said = stated(provider).get(CERTIFICATES)
    if said not in (None, "own", "cert-manager"):
        raise PolicyError(f"annotation {CERTIFICATES} is {said!r}; it may be own, cert-manager")
    return None if said is None else said == "own"
