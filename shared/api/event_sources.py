"""Which kinds an installation's event sources of Knative watch."""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube import Object, dig
from shared.kube.resources import Resource, split_api_version

API_SERVER_SOURCE = Resource("sources.knative.dev", "v1", "ApiServerSource", "apiserversources")


def watched_kinds(sources: Iterable[Object]) -> frozenset[tuple[str, str]]:
    """Returns group and kind of all that these ApiServerSources watch."""
    watched = (each for source in sources for each in dig(source, "spec.resources", []))
    return frozenset(
        (split_api_version(str(dig(each, "apiVersion", "")))[0], str(dig(each, "kind", ""))) for each in watched
    )
