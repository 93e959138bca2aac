"""The allow-list of sources: URL prefixes in a setting that limit which sources objects of users may name."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from .access import without_default_port


def is_allowed(url: str, prefixes: str) -> bool:
    """Returns whether a URL begins with one of the prefixes, which end at a segment of its path.

    Args:
        url: The URL of a source.
        prefixes: Prefixes of URLs, such as `oci://registry.example.com/team`, separated by whitespace; empty
            allows all.
    """
    listed = prefixes.split()
    return not listed or any(_begins(_parts(url), _parts(prefix)) for prefix in listed)


def _begins(url: tuple[str, ...] | None, prefix: tuple[str, ...] | None) -> bool:
    return url is not None and prefix is not None and url[: len(prefix)] == prefix


def _parts(url: str) -> tuple[str, ...] | None:
    """Returns scheme, host and path segments; None for a URL whose path a server may read in another way."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    decoded = unquote(parts.path).replace("\\", "/").split("/")
    if "\\" in parts.netloc or "@" in parts.netloc or {".", ".."} & set(decoded):
        return None
    return (parts.scheme, without_default_port(parts.netloc), *filter(None, parts.path.split("/")))
