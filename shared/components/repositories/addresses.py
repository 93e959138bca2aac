"""URLs of `spec.fetchConfig` and of the catalog: checks that all of them have to pass."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from shared.network import origin
from shared.redaction import redact_url

from .. import versions
from ..errors import ComponentsError


def scheme_of(url: str) -> str:
    """Returns the scheme in lower case; empty if the text is not a URL."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def split(url: str, *schemes: str) -> SplitResult:
    """Returns the parts of a URL.

    Raises:
        ComponentsError: The text is not a URL, or the URL has another scheme, no host, or credentials in it.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ComponentsError("spec.fetchConfig.url is not a URL") from None
    if parts.scheme not in schemes:
        local = "; only `provider export` reads folders" if parts.scheme == "file" else ""
        raise ComponentsError(f"URL {redact_url(url)[:200]}: only {' and '.join(schemes)} are supported{local}")
    if "@" in parts.netloc:
        raise ComponentsError(f"URL {redact_url(url)} has credentials in it; they belong in the Secret of configSecret")
    if parts.scheme != "file":
        if not parts.hostname:
            raise ComponentsError(f"URL {redact_url(url)} names no host")
        try:
            origin(url)
        except ValueError:
            raise ComponentsError("spec.fetchConfig.url is not a URL") from None
    return parts


def version_in(url: str, version: str) -> str:
    """Returns the version that a URL names. Raises `ComponentsError` if it is not a semantic version."""
    if versions.try_parse(version) is None:
        raise ComponentsError(
            f"URL {redact_url(url)} names {version!r}, which is not a version such as v1.2.3: set spec.version"
        )
    return version
