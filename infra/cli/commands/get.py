"""The commands `get`: objects of a management cluster in one line each with one reason, kubeconfigs of clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AllNamespaces, ListFormat, Namespace, Selector, TargetOptions, Watch
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.text import columns

if TYPE_CHECKING:
    from infra.operations.listing import Row
    from shared.kube import Object

app = App(
    name="get",
    help="List objects in one line each, with one reason; print the kubeconfig of a cluster.",
    no_args_is_help=True,
)

_KINDS = {
    "clusters": "List Clusters: Kubernetes version, wanted class, class of the applied addons, why one is not ready.",
    "stacks": "List ClusterStacks: their usable versions and latest release, and why one is not ready.",
    "releases": "List ClusterStackReleases: their Kubernetes version, and why one is not ready.",
    "addons": "List ClusterAddons: wanted and applied release, and why one is not ready.",
    "charts": "List HelmChartProxies: chart, version, number of selected Clusters, and why one is not ready.",
    "helm-releases": "List HelmReleaseProxies: Cluster, chart, revision of the release, and why one is not ready.",
    "sets": "List ClusterResourceSets: strategy, number of sources, and why one is not applied.",
    "rollouts": "List ClusterRollouts: wanted class and version, number of Clusters, and why one is not ready.",
    "providers": "List providers, by default of all namespaces: installed and wanted version, why one is not ready.",
}

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Names of objects (default: all).", show_default=False)
]
Output = Annotated[
    ListFormat,
    typer.Option(
        "--output", "-o", help="Output format: text and wide for people, json and yaml for programs, name for pipes."
    ),
]


def _add(kind: str, text: str) -> None:
    def list_objects(
        *,
        names: Names = None,
        namespace: Namespace = None,
        everywhere: AllNamespaces = False,
        selector: Selector = "",
        output: Output = ListFormat.text,
        watch: Watch = False,
        management: TargetOptions,
    ) -> None:
        from infra.operations.listing import KINDS, list_rows, table

        from ..terminal.live import follow, unbroken

        is_table, wide = output in (ListFormat.text, ListFormat.wide), output is ListFormat.wide
        if watch and not is_table:
            raise typer.BadParameter("--watch prints lines for people: use -o text or -o wide", param_hint="--watch")
        with report_failures(), management.open() as target:
            every = everywhere or (KINDS[kind].everywhere and not namespace)
            place = "" if every else target.namespace(namespace)

            def read() -> list[Row]:
                return list_rows(target.client, KINDS[kind], place, selector, names or ())

            def lines(rows: list[Row]) -> list[str]:
                return columns(table(rows, datetime.now(UTC), wide=wide, namespaces=every)) if rows else []

            if watch:
                follow(out, read, draw=lambda rows: unbroken(lines(rows)), changes=partial(_changes, lines=lines))
            rows = read()
            if not is_table:
                _print_objects([row.obj for row in rows], output, alone=len(names or ()) == 1)
                return
            if not rows:
                where = f" in the namespace {place}; `-A` lists all namespaces" if place else ""
                err.print(f"no {kind}{where}", markup=False)
            for line in lines(rows):
                out.print(line, markup=False)

    examples = [f"get {kind} -A", f"get {kind} --selector env=prod --watch", f"get {kind} NAME -o yaml"]
    app.add_for_kind(kind, list_objects, text, examples)


@app.command("kubeconfig", examples=["get kubeconfig demo > demo.kubeconfig"])
def kubeconfig(
    *,
    name: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the Cluster.", show_default=False)],
    namespace: Namespace = None,
    management: TargetOptions,
) -> None:
    """Print the kubeconfig of a workload cluster.

    Refused is a kubeconfig that names programs or files of this machine.
    """
    from infra.operations.clusters import read_kubeconfig
    from infra.operations.manifests import dump
    from shared.kube import Key

    with report_failures(), management.open() as target:
        typer.echo(dump([read_kubeconfig(target.client, Key(target.namespace(namespace), name))]), nl=False)


def _print_objects(objects: list[Object], output: ListFormat, *, alone: bool) -> None:
    """Prints objects without `managedFields`, as a List unless the object is `alone`."""
    from infra.operations.manifests import dump
    from shared.kube import key_of
    from shared.kube.resources import group_of

    if output is ListFormat.name:
        for obj in objects:
            typer.echo(f"{obj['kind'].lower()}.{group_of(obj)}/{key_of(obj).name}")
        return
    for obj in objects:
        obj["metadata"].pop("managedFields", None)
    document = objects[0] if alone else {"apiVersion": "v1", "kind": "List", "items": objects}
    typer.echo(json.dumps(document, indent=2) if output is ListFormat.json else dump([document]).rstrip("\n"))


def _changes(former: list[Row], present: list[Row], lines: Callable[[list[Row]], list[str]]) -> Iterator[str]:
    """Yields the lines of rows that have changed, and the names of deleted objects."""
    shown = {row.identity: row.content for row in former}
    yield from lines([row for row in present if shown.get(row.identity) != row.content])[1:]
    for kind, key in sorted(shown.keys() - {row.identity for row in present}):
        yield f"{kind} {key} is deleted"


for _kind, _text in _KINDS.items():
    _add(_kind, _text)
