"""The Helm release as the owner of objects: Helm's label, and annotations with name and namespace of the release.

Of two HelmReleaseProxies of one cluster that have an object in common, the one in the lower tier owns the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier.owner import Mark, Owner, Precedence
from shared.applier.policy import Policy
from shared.charts import Release
from shared.helm_proxies import selection
from shared.helm_proxies.construction import DEFAULT_TIER
from shared.helm_proxies.names import HCP_NAME_LABEL
from shared.kube import Object, dig

from .options import Options

LABELS: Final = {"app.kubernetes.io/managed-by": "Helm"}


def policy(release: Release, options: Options, precedence: Precedence = lambda _mark: None) -> Policy:
    """Returns the policy of a rollout. As with Helm, only an object with label and annotations is the release's own."""
    annotations = {
        "meta.helm.sh/release-namespace": release.namespace,
        "meta.helm.sh/release-name": release.name,
    }
    owner = Owner(
        HELM_RELEASE_PROXY.kind,
        LABELS,
        Mark(annotations, "annotations"),
        exclusive=True,
        trusts_mark=True,
        adopts=options.take_ownership,
        precedence=precedence,
        adopts_if="set spec.options.takeOwnership of the HelmChartProxy",
    )
    return Policy(owner, recreate=options.force, wait=options.wait, wait_timeout=options.timeout)


def precedence(proxy: Object, read_proxies: Callable[[], Iterable[Object]]) -> Precedence:
    """Returns the rule between the release of a HelmReleaseProxy and the others of its cluster.

    In equal tiers the first owner keeps the object, unless only the other takes ownership.

    Args:
        proxy: The HelmReleaseProxy.
        read_proxies: Returns the HelmReleaseProxies of the namespace; called for the first object of another release.
    """

    @cache
    def others() -> Mapping[str, Object]:
        uid, cluster = dig(proxy, "metadata.uid"), selection.cluster_of(proxy)
        found = (one for one in read_proxies() if selection.cluster_of(one) == cluster)
        return {_mark(one): one for one in found if dig(one, "metadata.uid") != uid}

    def decide(mark: str) -> str | None:
        holder = others().get(mark)
        if holder is None:
            return None
        own, its = _tier(proxy), _tier(holder)
        takes, keeps = (dig(one, "spec.options.takeOwnership") is True for one in (proxy, holder))
        if own < its or (own == its and takes and not keeps):
            return ""
        chart, name = dig(holder, "spec.chartName"), dig(holder, ("metadata", "labels", HCP_NAME_LABEL))
        of = f" of HelmChartProxy {name}" if name else ""
        return (
            f"it belongs to release {mark}{of}, chart {chart}, tier {its}; this release, of tier {own}, does not take "
            "precedence: remove the object from one of the two charts, or give the chart that should own it a lower "
            "spec.tier"
        )

    return decide


def _mark(proxy: Mapping[str, Any]) -> str:
    return f"{dig(proxy, 'spec.namespace') or 'default'}/{dig(proxy, 'spec.releaseName')}"


def _tier(proxy: Mapping[str, Any]) -> int:
    return int(dig(proxy, "spec.tier", DEFAULT_TIER))
