"""The settings of an installation: environment variables, or files in a mounted folder.

In a cluster each group is a ConfigMap and a Secret of its name, both optional, in the namespace of the functions. The
pods mount the groups that a function declares as one folder, with a file for each key. They mount files instead of
setting variables, because the kubelet updates files in a running pod, so that a change takes effect within about a
minute, without a restart. So do not cache a setting: read it where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "CAPI_FUNCTIONS_SETTINGS"
"""The environment variable with the path of the folder."""

NAMESPACE = "capi-functions"
"""The namespace of the functions of an installation, and of the ConfigMaps and Secrets of its settings."""


@dataclass(frozen=True)
class Group:
    """Settings that share a ConfigMap and a Secret: `keys` with descriptions; those in `secret` go into the Secret."""

    name: str
    purpose: str
    keys: tuple[tuple[str, str], ...]
    secret: frozenset[str] = frozenset()

    @property
    def where(self) -> str:
        """Where to set a value in a cluster, for messages."""
        return f"in a cluster: ConfigMap or Secret {self.name} in namespace {NAMESPACE}"


_PROXIES = (
    ("HTTP_PROXY", "Proxy for `http:` downloads."),
    ("HTTPS_PROXY", "Proxy for `https:` downloads."),
    ("NO_PROXY", "Hosts that are reached without a proxy."),
)

STORAGE = Group(
    "capi-functions-storage",
    "The object store for release assets and provider components; keys of S3 also open `s3:` release sources.",
    (
        (
            "CAPI_FUNCTIONS_STORE",
            "URL of the store: `s3://<bucket>/<prefix>`, `gs://<bucket>/<prefix>`, `az://<container>/<prefix>` or "
            "`file:///<path>`. Default: `s3:` with `CAPI_FUNCTIONS_BUCKET`; an installation of one pod without "
            "`CAPI_FUNCTIONS_BUCKET` and `S3_ENDPOINT_URL` uses a folder of the pod.",
        ),
        ("S3_ENDPOINT_URL", "URL of the S3 endpoint. Default: AWS."),
        ("CAPI_FUNCTIONS_BUCKET", "The bucket of S3, created if it is absent. Default: `capi-functions`."),
        (
            "CAPI_FUNCTIONS_STORE_KEY",
            "A random text of at least 32 characters, such as the output of `openssl rand -hex 32`. It signs records "
            "in a bucket, so that nobody else who writes to the bucket can exchange a release. With another key, "
            "functions fetch releases and components again.",
        ),
        ("AWS_DEFAULT_REGION", "The region; `AWS_REGION` means the same. Default: `us-east-1`."),
        ("AWS_REGION", "See `AWS_DEFAULT_REGION`."),
        (
            "AWS_ACCESS_KEY_ID",
            "The access key. Default: the credentials that boto3 finds in the pod, such as a role or a file.",
        ),
        ("AWS_SECRET_ACCESS_KEY", "The secret key."),
        ("AWS_SESSION_TOKEN", "The session token of temporary keys."),
        ("AWS_CA_BUNDLE", "Path of a file with the CA of the endpoint; an overlay has to mount it."),
        (
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "The key of a service account, in JSON, for `gs:`. Default: the identity of the pod.",
        ),
        ("AZURE_STORAGE_ACCOUNT_NAME", "The storage account for `az:`."),
        ("AZURE_STORAGE_ACCOUNT_KEY", "Its key. Default: the identity of the pod."),
        (
            "RELEASE_KEEP_HOURS",
            "Hours that `release_prune` keeps unused releases, and `component_prune` unused components. Default: 24.",
        ),
    ),
    frozenset(
        {
            "CAPI_FUNCTIONS_STORE_KEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
        }
    ),
)
RELEASE_SOURCES = Group(
    "capi-functions-releases",
    "The sources of cluster-stack releases, unless a ClusterStack has its own sources.",
    (
        ("RELEASE_SOURCE", "One or more URLs, separated by whitespace; see [releases](releases.md)."),
        (
            "RELEASE_PUBLIC_KEY",
            "Public keys (PEM) of cosign. If it is set, releases that none of them has signed are refused.",
        ),
        (
            "RELEASE_ALLOWED_SOURCES",
            "URL prefixes, separated by whitespace, that the sources of ClusterStacks begin with. Default: any source.",
        ),
        ("RELEASE_POLL_SECONDS", "How often a ClusterStack with `autoSubscribe` looks for releases. Default: 300."),
        ("GIT_PROVIDER", "`github`, or unset. Like the next four, used only if `RELEASE_SOURCE` is not set."),
        ("GIT_ORG_NAME", "Organization on github.com."),
        ("GIT_REPOSITORY_NAME", "Repository on github.com."),
        ("OCI_REGISTRY", "Host of a registry."),
        ("OCI_REPOSITORY", "Repository in it."),
        ("GIT_ACCESS_TOKEN", "Token for the first GitHub repository among the sources."),
        ("OCI_ACCESS_TOKEN", "Token for the first registry among the sources."),
        ("OCI_USERNAME", "User name for the first registry among the sources."),
        ("OCI_PASSWORD", "Password for the first registry among the sources."),
        *_PROXIES,
    ),
    frozenset({"GIT_ACCESS_TOKEN", "OCI_ACCESS_TOKEN", "OCI_USERNAME", "OCI_PASSWORD"}),
)
HELM_CHARTS = Group(
    "capi-functions-charts",
    "The repositories of the charts of HelmChartProxies.",
    (
        (
            "CHART_ALLOWED_SOURCES",
            "URL prefixes, separated by whitespace, that `repoURL` begins with. Default: any repository.",
        ),
        *_PROXIES,
    ),
)
CLASSES = Group(
    "capi-functions-classes",
    "Further kinds of objects in class charts.",
    (
        (
            "CLASS_CHART_KINDS",
            "Further kinds, as `Kind.group` (core kinds as `Kind`), separated by spaces; see "
            "[cluster stacks](cluster-stacks.md#rights).",
        ),
    ),
)
PROVIDER_SOURCES = Group(
    "capi-functions-providers",
    "The sources of Cluster API's providers, unless a provider has its own source.",
    (
        (
            "clusterctl.yaml",
            "clusterctl's configuration: `providers` and `images`; see [providers](providers.md).",
        ),
        (
            "PROVIDER_PUBLIC_KEY",
            "Public keys (PEM) of cosign. If it is set, components that none of them has signed are refused.",
        ),
        (
            "PROVIDER_ALLOWED_SOURCES",
            "URL prefixes, separated by whitespace, that the sources of providers begin with; `configmaps:` stands for "
            "ConfigMaps. Default: any source.",
        ),
        ("GITHUB_TOKEN", "Token for github.com, which otherwise limits requests to 60 an hour."),
        ("GITHUB_URL", "A mirror of github.com."),
        ("GITHUB_API_URL", "The API of that mirror."),
        *_PROXIES,
    ),
    frozenset({"GITHUB_TOKEN"}),
)
HOOKS = Group(
    "capi-functions-hooks",
    "How long Cluster API's lifecycle hooks wait.",
    (
        ("HOOK_UPGRADE_SECONDS", "Seconds that an upgrade waits at most. Default: 3600."),
        ("HOOK_DELETE_SECONDS", "Seconds that a deletion waits, and a clean-up is retried, at most. Default: 600."),
    ),
)
KUBECONFIGS = Group(
    "capi-functions-kubeconfigs",
    "When kubeconfigs are renewed. The sweep and the forwarder, which find due kubeconfigs, read it as well.",
    (
        (
            "KUBECONFIG_RENEW_DAYS",
            "Days before its expiry that a generated kubeconfig is renewed; 0 for no renewal; see "
            "[kubeconfigs](kubeconfig.md). Default: 182.",
        ),
    ),
)
NETWORK = Group(
    "capi-functions-network",
    "Which addresses functions may connect to for kubeconfigs and sources.",
    (
        (
            "CAPI_FUNCTIONS_ALLOWED_NETWORKS",
            "Networks (CIDR, separated by spaces or commas) that are exempt from every refusal of addresses.",
        ),
        (
            "CAPI_FUNCTIONS_REFUSED_NETWORKS",
            "Networks that are refused, besides link-local, metadata, multicast, unspecified and loopback addresses. "
            "`0.0.0.0/0 ::/0` refuses all but the allowed networks.",
        ),
        (
            "CAPI_FUNCTIONS_PLAIN_HTTP",
            "`true` allows kubeconfigs with an `http:` server, whose credentials anybody on the way can read.",
        ),
    ),
)
INSTALLATION = Group(
    "capi-functions-installation",
    "Which functions run, and for which objects.",
    (
        (
            "CAPI_FUNCTIONS_PROFILES",
            "Profiles, separated by commas. The forwarder and the sweep leave out functions of other profiles. "
            "The forwarder reads them when it starts; chart and overlays restart it. "
            "See [installation](installation.md#profiles). Default: `all`.",
        ),
        (
            "CAPI_FUNCTIONS_NAMESPACES",
            "Namespaces, separated by commas, that the forwarder watches and functions list. Pods read it when they "
            "start. See [installation](installation.md#some-namespaces). Default: all.",
        ),
        (
            "CAPI_FUNCTIONS_WATCH_FILTER",
            "A value of the label `cluster.x-k8s.io/watch-filter`: only Clusters and KINDClusters with it are "
            "reconciled. See [installation](installation.md#watch-filter). Default: all.",
        ),
    ),
)
GROUPS = (INSTALLATION, STORAGE, RELEASE_SOURCES, HELM_CHARTS, CLASSES, PROVIDER_SOURCES, HOOKS, KUBECONFIGS, NETWORK)

_KEYS = frozenset(key for group in GROUPS for key, _ in group.keys)


class Settings(Mapping[str, str]):
    """All settings by name, read at each access. An environment variable takes precedence over a file."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment

    def __getitem__(self, name: str) -> str:
        if name in self._environment:
            return self._environment[name]
        folder = self._environment.get(FOLDER)
        if folder and name in _KEYS:
            try:
                return Path(folder, name).read_text(errors="replace").strip()
            except OSError:
                pass
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({*self._environment, *(name for name in _KEYS if name in self)})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None


def namespaces(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the namespaces that an installation is limited to; empty if it is for all."""
    return tuple(settings.get("CAPI_FUNCTIONS_NAMESPACES", "").replace(",", " ").split())


SETTINGS = Settings()
