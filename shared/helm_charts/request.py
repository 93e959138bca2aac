"""The chart that a HelmReleaseProxy needs, the event that requests its fetch, and the event that answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.event import OWN, Event, own_event
from shared.kube import Object, dig

from .versions import is_exact

_WANTED, _FETCHED = "chart.wanted", "chart.fetched"
WANTED, FETCHED = OWN + _WANTED, OWN + _FETCHED
"""The types of the request and of the answer; the answer has this type even if the chart cannot be fetched."""

PUBLIC = "public"
"""The scope of charts that anybody can fetch."""

CONFIG_JSON = "config.json"
"""The key of a Secret with credentials in the format of Docker, unless the object names another key."""
CA_CRT = "ca.crt"
"""The key of a Secret with CA certificates."""


@dataclass(frozen=True)
class SecretKey:
    """A key of a Secret."""

    namespace: str
    name: str
    key: str


@dataclass(frozen=True)
class ChartRequest:
    """A chart, and how it is fetched.

    Attributes:
        repo_url: The URL of the repository, `https://` or `oci://`.
        chart_name: The name in the repository.
        version: A version, a range of versions, or "" for the newest version that is no prerelease.
        namespace: The namespace of the HelmReleaseProxy.
        credentials: The credentials for the repository.
        ca: The CA certificates that are trusted in addition to the system's.
        insecure: Whether any certificate is accepted.
    """

    repo_url: str
    chart_name: str
    version: str
    namespace: str
    credentials: SecretKey | None = None
    ca: SecretKey | None = None
    insecure: bool = False

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], namespace: str) -> ChartRequest:
        """Returns the request of a HelmReleaseProxy with this spec in a namespace. Never raises."""
        return cls(
            repo_url=_text(spec, "repoURL"),
            chart_name=_text(spec, "chartName"),
            version=_text(spec, "version").strip(),
            namespace=namespace,
            credentials=_secret(spec, "credentials.secret", namespace, _text(spec, "credentials.key") or CONFIG_JSON),
            ca=_secret(spec, "tlsConfig.caSecret", namespace, CA_CRT),
            insecure=dig(spec, "tlsConfig.insecureSkipTLSVerify") is True,
        )

    @property
    def is_exact(self) -> bool:
        """Whether the version is a single one, so that a stored chart stays the right one."""
        return is_exact(self.version)

    @property
    def scope(self) -> str:
        """The part of storage for the chart.

        A chart that a tenant has fetched with own credentials or own trust is stored for the namespace only: others may
        neither read it nor rely on it.
        """
        return f"namespaces/{self.namespace}" if self.credentials or self.ca or self.insecure else PUBLIC

    @property
    def id(self) -> str:
        """Identifies the request within its scope: a SHA-256 in hexadecimal."""
        trust = [None if secret is None else vars(secret) for secret in (self.credentials, self.ca)]
        identity = json.dumps([self.repo_url, self.chart_name, self.version, *trust, self.insecure], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()

    def __str__(self) -> str:
        return f"chart {self.chart_name[:253]}" + (f" {self.version[:100]}" if self.version else "")


def request_chart(about: Object, *, source: str) -> Event:
    """Returns the event that requests the chart of the HelmReleaseProxy `about`; `source` is a function's path."""
    return own_event(_WANTED, source=source, subject=_text(about, "spec.chartName"), about=about, data={})


def answer_chart(about: Object) -> Event:
    """Returns the event for the HelmReleaseProxy `about` that the fetch of its chart has ended."""
    return own_event(_FETCHED, source="/chart_assets", subject=_text(about, "spec.chartName"), about=about, data={})


def _secret(spec: Mapping[str, Any], path: str, namespace: str, key: str) -> SecretKey | None:
    name = _text(spec, f"{path}.name")
    return SecretKey(_text(spec, f"{path}.namespace") or namespace, name, key) if name else None


def _text(obj: Mapping[str, Any], path: str) -> str:
    value = dig(obj, path)
    return value if isinstance(value, str) else ""
