"""The commands `resync`: functions reconcile objects of a management cluster now."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from infra.operations.failure import Failure
from infra.operations.local_runs import token_for

from ..options import AllNamespaces, EventsTo, Namespace, Selector, TargetOptions, require_url
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out

app = App(
    name="resync",
    help="Make functions reconcile objects now, as if each had changed, without a change of the objects.",
    no_args_is_help=True,
)

_KINDS = {
    "clusters": "Clusters",
    "stacks": "ClusterStacks, which look for new releases",
    "releases": "ClusterStackReleases, which fetch what is missing",
    "addons": "ClusterAddons, which repair changed and missing objects",
    "charts": "HelmChartProxies",
    "helm-releases": "HelmReleaseProxies, which repair changed and missing objects",
    "sets": "ClusterResourceSets",
    "rollouts": "ClusterRollouts, which look for Clusters",
    "providers": "providers, by default in any namespace",
}


def _add(kind: str, text: str) -> None:
    def resync(
        *,
        names: Annotated[
            list[str] | None, typer.Argument(metavar="NAME", help="Names of objects.", show_default=False)
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="All objects of the kind.")] = False,
        namespace: Namespace = None,
        everywhere: AllNamespaces = False,
        selector: Selector = "",
        to: EventsTo = "",
        management: TargetOptions,
    ) -> None:
        from infra.operations.listing import KINDS, list_rows
        from infra.operations.resync import send

        if bool(names) is (every or bool(selector)):
            raise typer.BadParameter("name objects, or give --selector or --all", param_hint="NAME")
        with report_failures(), management.open() as target:
            url = require_url(to or target.settings.get("K_SINK") or os.environ.get("K_SINK", ""))
            place = "" if everywhere or (KINDS[kind].everywhere and not namespace) else target.namespace(namespace)
            rows = list_rows(target.client, KINDS[kind], place, selector, names or ())
            if not rows:
                err.print(f"no {kind}{f' in the namespace {place}' if place else ''}", markup=False)
            refused = 0
            for about, answer in send(url, [row.obj for row in rows], token_for(url, target.run)):
                if answer.status < 300:
                    out.print(f"{about} sent", markup=False)
                else:
                    refused += 1
                    err.print(f"{about}: {url} answered {answer.status} {answer.message}".rstrip(), markup=False)
            if refused:
                raise Failure(f"{refused} of {len(rows)} objects are not sent: does {url} accept events?")

    examples = [f"resync {kind} NAME", f"resync {kind} --all -A"]
    app.add_for_kind(kind, resync, f"Make functions reconcile {text}.", examples)


for _kind, _text in _KINDS.items():
    _add(_kind, _text)
