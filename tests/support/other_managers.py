"""The Deployment and the webhooks of another project's manager, which the pages about migrations stop and start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from shared.api.resources import DEPLOYMENT, NAMESPACE
from shared.kube import Client, Key, Object, Resource, dig
from tests.support import objects

_GROUP = "admissionregistration.k8s.io"
WEBHOOKS = {
    kind: Resource(_GROUP, "v1", f"{kind.title()}WebhookConfiguration", f"{kind}webhookconfigurations", False)
    for kind in ("mutating", "validating")
}


@dataclass(frozen=True)
class Manager:
    """A manager without pods. Nothing answers its webhooks, so `failurePolicy: Fail` rejects all writes."""

    client: Client
    key: Key
    """Of the Deployment."""
    prefix: str
    """Of the names of its webhook configurations."""
    labels: dict[str, str]
    webhooks: Sequence[tuple[Resource, str]]
    """The kinds whose writes call a webhook, each with the kind of the configuration."""

    def install(self) -> None:
        template = {
            "metadata": {"labels": self.labels},
            "spec": {"containers": [{"name": "manager", "image": "example.com/manager"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": self.labels}, "template": template}
        metadata = {"labels": self.labels}
        self.client.apply(NAMESPACE, objects.manifest(NAMESPACE, self.key.namespace), manager="user")
        self.client.create(
            DEPLOYMENT, objects.manifest(DEPLOYMENT, self.key.name, self.key.namespace, metadata=metadata, spec=spec)
        )
        for kind, resource in WEBHOOKS.items():
            hooks = [self._webhook(kind, called) for called, of in self.webhooks if of == kind]
            if hooks:
                body = objects.manifest(resource, self._configuration(kind), metadata=metadata, webhooks=hooks)
                self.client.create(resource, body)

    def remove(self) -> None:
        for kind, resource in WEBHOOKS.items():
            self.client.delete(resource, Key("", self._configuration(kind)))
        self.client.delete(DEPLOYMENT, self.key)

    def replicas(self) -> int:
        return int(dig(self.client.get(DEPLOYMENT, self.key), "spec.replicas"))

    def controllers_scale(self) -> None:
        """Reports the replicas of the Deployment, as Kubernetes' controllers do."""
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), self.replicas())
        self.client.patch(DEPLOYMENT, self.key, {"status": counts}, subresource="status")

    @property
    def service(self) -> str:
        """The name of the webhooks' Service, which errors quote."""
        return f"{self.prefix}-webhook-service"

    def _configuration(self, kind: str) -> str:
        return f"{self.prefix}-{kind}-webhook-configuration"

    def _webhook(self, kind: str, called: Resource) -> Object:
        return {
            "name": f"{kind}.{called.plural}.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": self.service, "namespace": self.key.namespace}},
            "rules": [
                {
                    "apiGroups": [called.group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [called.plural],
                }
            ],
        }


@contextmanager
def running(manager: Manager) -> Iterator[Manager]:
    """Installs the manager for the time of the block."""
    manager.install()
    try:
        yield manager
    finally:
        manager.remove()
