"""The commands `describe`: one object, what belongs to it, why it is not ready, and what to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import FormatOptions, Namespace, TargetOptions, Watch
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import out
from .clusters import find_cluster

if TYPE_CHECKING:
    from infra.operations.management_cluster import ManagementCluster
    from shared.kube import Object

app = App(
    name="describe",
    help="Show an object, what belongs to it, why it is not ready, and what to do.",
    no_args_is_help=True,
)

_KINDS = {
    "clusters": "Show a Cluster, the objects it refers to, its Machines by state, its addons, charts and sets.",
    "stacks": "Show a ClusterStack and its releases.",
    "releases": "Show a ClusterStackRelease and the Clusters with its class.",
    "addons": "Show a ClusterAddon, its stages, objects and history, and its Cluster.",
    "charts": "Show a HelmChartProxy and the releases in its Clusters.",
    "helm-releases": "Show a HelmReleaseProxy, its objects and its HelmChartProxy.",
    "sets": "Show a ClusterResourceSet and the Clusters that it was applied to.",
    "rollouts": "Show a ClusterRollout and its Clusters.",
    "providers": "Show a provider, by default of any namespace, and its objects.",
}


def _add(kind: str, text: str) -> None:
    def describe_object(
        *,
        name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the object.", show_default=False)],
        namespace: Namespace = None,
        watch: Watch = False,
        output: FormatOptions,
        management: TargetOptions,
    ) -> None:
        from infra.operations.describe.facts import changes

        from ..terminal.cluster_tree import show, trees
        from ..terminal.live import follow

        if watch and output.json:
            raise typer.BadParameter("--watch prints a tree for people: use -o text", param_hint="--watch")
        with report_failures(), management.open() as target:

            def read() -> list[Object]:
                return _documents(target, kind, namespace, name)

            if watch:
                follow(out, read, draw=trees, changes=changes)
                return
            found = read()
            if output.json:
                typer.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
                return
            show(out, found)

    one = kind.removesuffix("s")
    examples = [f"describe {one} NAME", f"describe {one} NAME --watch", f"describe {one} NAME -o json"]
    app.add_for_kind(kind, describe_object, text, examples, of_one=True)


def _documents(target: ManagementCluster, kind: str, namespace: str | None, name: str) -> list[Object]:
    """Returns the documents of the objects with this name: one, or several providers."""
    from infra.operations import clusters
    from infra.operations.describe.objects import describe_row
    from infra.operations.listing import KINDS, list_rows

    now = datetime.now(UTC)
    if kind == "clusters":
        return [clusters.describe(target.client, find_cluster(target, namespace, name), now)]
    place = "" if KINDS[kind].everywhere and not namespace else target.namespace(namespace)
    return [describe_row(target.client, row, now) for row in list_rows(target.client, KINDS[kind], place, "", [name])]


for _kind, _text in _KINDS.items():
    _add(_kind, _text)
