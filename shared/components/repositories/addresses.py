"""URLs of `spec.fetchConfig` and of the catalog: what is asked of all of them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from shared.network import origin
from shared.redaction import redact_url

from .. import versions
from ..errors import ComponentsError


def split(url: str, *schemes: str) -> SplitResult:
    """Raises `ComponentsError` for a URL that is none, is of no such scheme, or has credentials in it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ComponentsError("spec.fetchConfig.url is no URL") from None
    if parts.scheme not in schemes:
        local = "; only `provider export` reads folders" if parts.scheme == "file" else ""
        raise ComponentsError(f"URL {redact_url(url)[:200]}: only {' and '.join(schemes)} are supported{local}")
    if "@" in parts.netloc:
        raise ComponentsError(
            f"URL {redact_url(url)} has credentials in it; they belong into the Secret of configSecret"
        )
    if parts.scheme != "file":
        if not parts.hostname:
            raise ComponentsError(f"URL {redact_url(url)} names no host")
        try:
            origin(url)
        except ValueError:
            raise ComponentsError("spec.fetchConfig.url is no URL") from None
    return parts


def version_in(url: str, version: str) -> str:
    """The version that a URL names. Raises `ComponentsError` for one that nobody could install."""
    if versions.try_parse(version) is None:
        raise ComponentsError(
            f"URL {redact_url(url)} names {version!r}, which is no version such as v1.2.3: set spec.version"
        )
    return version
