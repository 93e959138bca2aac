"""What annotations of ours say about one provider, besides those of every rollout (`shared.applier.policy`).

capi-functions.dev/certificates  own or cert-manager: who issues the serving certificates of its webhooks; without it
                                 cert-manager, where its kinds are served
capi-functions.dev/webhooks      install (default) or none: without webhooks nothing is refused because nothing runs
                                 that would answer them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.applier.policy import PREFIX, PolicyError
from shared.kube import dig

CERTIFICATES = f"{PREFIX}certificates"
WEBHOOKS = f"{PREFIX}webhooks"


def updated_types(provider: Mapping[str, Any]) -> dict[str, str]:
    """All annotations under our prefix."""
    annotations = dig(provider, "metadata.annotations", {})
    return {name: value for name, value in annotations.items() if name.startswith(PREFIX)}


def certificates_by_us(provider: Mapping[str, Any]) -> bool | None:
    """Whether they are to be ours; None where the provider does not say. Raises `PolicyError`."""
    said = updated_types(provider).get(CERTIFICATES)
    if said not in (None, "own", "cert-manager"):
        raise PolicyError(f"annotation {CERTIFICATES} is {said!r}; it may be own, cert-manager")
    return None if said is None else said == "own"


def leaves_out_webhooks(provider: Mapping[str, Any]) -> bool:
    """Whether it is to be installed without its webhooks. Raises `PolicyError`."""
    said = updated_types(provider).get(WEBHOOKS, "install")
    if said not in ("install", "none"):
        raise PolicyError(f"annotation {WEBHOOKS} is {said!r}; it may be install, none")
    return said == "none"
