"""The Helm release as the owner of objects: Helm's label, and annotations with name and namespace of the release."""

from __future__ import annotations

from typing import Final

from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier.owner import Mark, Owner
from shared.applier.policy import Policy
from shared.charts import Release

from .options import Options

LABELS: Final = {"app.kubernetes.io/managed-by": "Helm"}


def policy(release: Release, options: Options) -> Policy:
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
        adopts_if="set spec.options.takeOwnership of the HelmChartProxy",
    )
    return Policy(owner, recreate=options.force, wait=options.wait, wait_timeout=options.timeout)
