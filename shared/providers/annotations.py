"""This project's annotations on a provider, besides the annotations of every sync (`shared.applier.policy`).

docs/reference/annotations.md describes each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from shared.applier.policy import PREFIX, PolicyError
from shared.kube import dig

CERTIFICATES = f"{PREFIX}certificates"
FORCE_DELETE = f"{PREFIX}force-delete"
KEEP_DOWNLOAD = f"{PREFIX}keep-download"
RETRIED = f"{PREFIX}retried-at"
ISSUERS = ("own", "cert-manager")
"""The values of `CERTIFICATES`."""
DOWNLOADS = ("config-map",)
"""The values of `KEEP_DOWNLOAD`."""
WEBHOOKS = f"{PREFIX}webhooks"
_URL = re.compile(r"https://(?:[a-z0-9.-]+|\[[0-9a-f:]+\]):[0-9]{1,5}")


def own_annotations(provider: Mapping[str, Any]) -> dict[str, str]:
    """Returns the provider's annotations with this project's prefix, without `RETRIED`."""
    annotations = dig(provider, "metadata.annotations", {})
    return {name: value for name, value in annotations.items() if name.startswith(PREFIX) and name != RETRIED}


def issues_own_certificates(provider: Mapping[str, Any]) -> bool | None:
    """Returns whether this project issues the provider's serving certificates; None without the annotation.

    Raises:
        PolicyError: The annotation has an unknown value.
    """
    issuer = own_annotations(provider).get(CERTIFICATES)
    if issuer not in (None, *ISSUERS):
        raise PolicyError(f"annotation {CERTIFICATES} is {issuer!r}; it must be one of {', '.join(ISSUERS)}")
    return None if issuer is None else issuer == "own"


def omits_webhooks(provider: Mapping[str, Any]) -> bool:
    """Returns whether the provider is installed without its webhooks.

    Raises:
        PolicyError: The annotation has an unknown value.
    """
    return _webhooks(provider) == "none"


def webhooks_url(provider: Mapping[str, Any]) -> str:
    """Returns the scheme, host and port of the provider's webhooks; empty for its Service.

    Raises:
        PolicyError: The annotation has an unknown value.
    """
    choice = _webhooks(provider)
    return choice if choice.startswith("https:") else ""


def _webhooks(provider: Mapping[str, Any]) -> str:
    choice = own_annotations(provider).get(WEBHOOKS, "install")
    if choice not in ("install", "none") and not _is_url(choice):
        raise PolicyError(
            f"annotation {WEBHOOKS} is {choice!r}; it must be one of install, none, or a URL such as "
            "https://localhost:9443"
        )
    return choice


def _is_url(text: str) -> bool:
    try:
        return _URL.fullmatch(text) is not None and bool(urlsplit(text).port)
    except ValueError:  # a port above 65535, or no address in brackets
        return False


def keeps_download(provider: Mapping[str, Any]) -> bool:
    """Returns whether downloaded components are also written to a ConfigMap in the provider's namespace.

    Raises:
        PolicyError: The annotation has an unknown value.
    """
    choice = own_annotations(provider).get(KEEP_DOWNLOAD)
    if choice not in (None, *DOWNLOADS):
        raise PolicyError(f"annotation {KEEP_DOWNLOAD} is {choice!r}; it must be {' or '.join(DOWNLOADS)}")
    return choice is not None
