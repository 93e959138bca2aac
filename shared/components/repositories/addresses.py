"""Parses and checks the URLs of `spec.fetchConfig` and of the catalog."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from shared import semver
from shared.network import origin
from shared.redaction import redact_url

from ..errors import ComponentsError


def scheme_of(url: str) -> str:
    """Returns the scheme in lower case; empty if the text is not a URL."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def server_of(url: str) -> str:
    """Returns host and port of a URL as it has them; empty if the text is not a URL."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def split(url: str, *schemes: str) -> SplitResult:
    """Returns the parts of a URL.

    Raises:
        ComponentsError: The text is not a URL, or the URL has a scheme not in `schemes`, no host, or credentials in it.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if the port is invalid
    except ValueError:
        raise ComponentsError("spec.fetchConfig.url is not a URL") from None
    if parts.scheme not in schemes:
        local = "; only `provider export` reads folders" if parts.scheme == "file" else ""
        raise ComponentsError(f"URL {redact_url(url)[:200]}: only {' and '.join(schemes)} are supported{local}")
    if "@" in parts.netloc:
        raise ComponentsError(
            f"URL {redact_url(url)} contains credentials; put them into the Secret of spec.configSecret"
        )
    if parts.scheme != "file":
        if not parts.hostname:
            raise ComponentsError(f"URL {redact_url(url)} has no host")
        try:
            origin(url)
        except ValueError:
            raise ComponentsError("spec.fetchConfig.url is not a URL") from None
    return parts


def validate_version(url: str, version: str) -> str:
    """Returns `version`, which is a part of the URL. Raises `ComponentsError` if it is not a semantic version."""
    if semver.try_parse(version) is None:
        raise ComponentsError(
            f"URL {redact_url(url)} has {version!r} in place of a version such as v1.2.3: set spec.version"
        )
    return version
