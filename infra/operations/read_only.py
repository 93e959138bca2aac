"""A client of the management cluster that only reads, so that a preview cannot change anything."""

from __future__ import annotations

from shared.kube import Client
from shared.kube.transport import Request


class ReadOnlyClient(Client):
    """A client that reads like `client`. It refuses every other request with `TypeError`, and sends none."""

    def __init__(self, client: Client) -> None:
        transport = client._transport
        super().__init__(transport.credentials, attempts=client._attempts, cluster=transport.cluster)
        self.namespaces = client.namespaces

    def _payload(self, sent: Request, subject: str, needs: str = "") -> bytes:
        if sent.method != "GET":
            raise TypeError(f"{subject}: a preview only reads the management cluster")
        return super()._payload(sent, subject, needs)
