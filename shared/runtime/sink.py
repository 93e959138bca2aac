"""The token and the CA for events to a Knative sink, as a SinkBinding provides them.

https://knative.dev/docs/eventing/features/sender-identity/ and /docs/eventing/features/transport-encryption/
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..event import Event
from . import callers

TOKEN = Path("/oidc/token")
"""The token of this sender, which Knative renews; absent if it does not check senders."""
AUTHORITIES = Path("/knative-custom-certs")
"""The folder with the CAs that the cluster's administrators trust (trust bundles), if there are any."""


class _SinkTls(ssl.SSLContext):
    """Trusts the CAs of the system, and the CAs in trust bundles at the time when a connection opens."""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        for bundle in AUTHORITIES.glob("[!.]*"):
            with suppress(OSError):  # not a file with certificates: the others may suffice
                self.load_verify_locations(bundle)
        return super().wrap_socket(*arguments, **options)


def headers(url: str, event: Event, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the headers for an event to the sink at `url`: who sends it, and which events stay in order.

    Only the sink of the SinkBinding (K_SINK) gets the token, which is made for it and read anew for each request.
    """
    return (_authorization(environment) if url == environment.get("K_SINK") else {}) | _partition(event)


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the header with the token of Knative, else with the token of a local run, if there is one."""
    return callers.authorization(TOKEN) or callers.authorization(callers.token_file(environment))


def _partition(event: Event) -> dict[str, str]:
    """Returns the header by which a Broker of the class Kafka keeps the events about one object in order.

    It is the extension `partitionkey`: https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/partitioning.md
    """
    return {"ce-partitionkey": f"{event.kind}.{event.group}/{event.namespace}/{event.name}"} if event.kind else {}


def tls() -> ssl.SSLContext | None:
    """Returns the TLS settings for a sink by K_CA_CERTS and trust bundles; None for the CAs of the system alone."""
    authorities = os.environ.get("K_CA_CERTS")
    if not authorities and not AUTHORITIES.is_dir():
        return None
    context = _SinkTls(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    if authorities:
        context.load_verify_locations(cadata=authorities)
    return context
