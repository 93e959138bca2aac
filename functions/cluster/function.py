"""The function `cluster`: reconciles a Cluster with the objects that it refers to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.effects import Results, latest
from shared.kube import dig
from shared.runtime import Decision, Function

from .decide import decide
from .observe import observe
from .observed import Observed
from .triggers import TRIGGERS


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Returns the decision to report; if the effects changed the spec, one about the new spec.

    A change of the spec, such as a copied endpoint, increases the generation, but the status of this decision has the
    previous one. It would be written twice, and look outdated to other controllers in between.
    """
    if observed.cluster is None:
        return decision
    newest = latest(observed.cluster, results)
    changed = dig(newest, "metadata.generation") != dig(observed.cluster, "metadata.generation")
    return decide(replace(observed, cluster=dict(newest)), now) if changed else decision


handle = Function(TRIGGERS, observe, decide, report).handle
