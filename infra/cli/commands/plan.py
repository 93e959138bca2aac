"""The commands `plan` (the addons of a Cluster), `plan cluster` (its topology) and `plan class` (all its Clusters)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from infra.cli.terminal.output import print_either, progress
from infra.operations.helm import helm_when_needed

from ..options import FormatOptions, ManagerOption, Namespace, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from .clusters import ClusterOptions

if TYPE_CHECKING:
    from infra.local.managers import GivenManager
    from infra.operations.preview import Change


class _AddonsByDefault(TyperGroup):
    """A group that takes `plan NAME` for `plan addons NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["addons", *args]
        return super().parse_args(ctx, args)


app = App()
plan = App(cls=_AddonsByDefault, help="Show what a change would do. `plan NAME` is short for `plan addons NAME`.")
app.add_typer(plan, name="plan")

Release = Annotated[
    str | None,
    typer.Option(help="Tag or folder of the release (default: the Cluster's class).", show_default=False),
]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if something would change."),
]


@plan.command(
    "addons", examples=["plan addons demo", "plan addons demo --release releases/local-demo-1-36-v2 --exit-code"]
)
def plan_addons(
    *,
    cluster: ClusterOptions,
    release: Release = None,
    output: FormatOptions,
    exit_code: ExitCode = False,
    management: TargetOptions,
) -> None:
    """Show what a release would change in a cluster. Uses dry runs, and changes nothing."""
    from infra.operations.addons import plan as planning

    from ..terminal import plan_text

    with report_failures(), helm_when_needed(progress), management.open() as target:
        os.environ |= target.settings
        found = planning.plan(target.client, cluster.find(target), release)
        print_either(found.dump(), plan_text.lines(found), as_json=output.json, markup=True)
    raise typer.Exit(found.exit_code if exit_code or found.is_blocked else 0)


@dataclass(frozen=True)
class ChangeOptions:
    """The options that describe a change of a topology."""

    class_name: Annotated[str, typer.Option("--class", help="Name of the new ClusterClass.", show_default=False)] = ""
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--set-variable",
            metavar="NAME=VALUE",
            help="New value of a variable, as JSON or as a string. Repeatable.",
            show_default=False,
        ),
    ] = None
    version: Annotated[str, typer.Option(help="New Kubernetes version.", show_default=False)] = ""
    file: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            help="File with the changed Cluster, ClusterClass or templates.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None
    manager: ManagerOption = None

    def read(self) -> Change:
        """Returns the change. Raises `Failure`, `YAMLError` or `OSError`."""
        from infra.operations import preview

        manifests = preview.parse_manifests(self.file.read_text()) if self.file else ()
        variables = dict(map(preview.parse_variable, self.variables or ()))
        return preview.Change(self.class_name, self.version, variables, manifests)

    def managers(self) -> Iterable[GivenManager]:
        """Returns the managers to run. Raises `ManagerError`."""
        from infra.local.managers import parse_manager

        return map(parse_manager, self.manager or ())


@plan.command(
    "cluster",
    examples=[
        "plan cluster demo --class local-demo-1-36-v2",
        "plan cluster demo --version v1.36.3 -o json",
        "plan cluster demo --filename cluster.yaml",
    ],
)
def plan_cluster(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the Cluster.", show_default=False)],
    change: ChangeOptions,
    namespace: Namespace = None,
    output: FormatOptions,
    exit_code: ExitCode = False,
    management: TargetOptions,
) -> None:
    """Show what Cluster API core would do if a Cluster got another class, version or variables, and then the addons.

    Only reads; for addons of a cluster stack it also sends dry runs.
    """
    from infra.operations import preview
    from shared.kube import Key

    from ..terminal import topology_plan_text

    with _preview_failures(), helm_when_needed(progress), management.open() as target:
        os.environ |= target.settings
        key, wanted = Key(target.namespace(namespace), name), change.read()
        [found] = preview.preview(target.client, {key: wanted}, progress, change.managers())
        found = preview.with_addons(target.client, found, wanted)
        print_either(found.dump(), topology_plan_text.lines(found), as_json=output.json, markup=True)
    raise typer.Exit(found.exit_code if exit_code or found.is_blocked else 0)


@plan.command(
    "class",
    examples=[
        "plan class local-demo-1-36-v1 --filename changed.yaml",
        "plan class local-demo-1-36-v1 --class local-demo-1-36-v2 -o json",
    ],
)
def plan_class(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the ClusterClass.", show_default=False)],
    change: ChangeOptions,
    namespace: Namespace = None,
    output: FormatOptions,
    exit_code: ExitCode = False,
    management: TargetOptions,
) -> None:
    """Show what Cluster API core would do to all Clusters of a ClusterClass, in groups. Only reads."""
    from infra.operations import preview
    from shared.kube import Key

    from ..terminal import topology_plan_text

    with _preview_failures(), management.open() as target:
        key = Key(target.namespace(namespace), name)
        found = preview.preview_class(target.client, key, change.read(), progress, change.managers())
        print_either(found.dump(), topology_plan_text.class_lines(found), as_json=output.json, markup=True)
    raise typer.Exit(found.exit_code if exit_code or found.is_blocked else 0)


def _preview_failures() -> AbstractContextManager[None]:
    from infra.local.managers import ManagerError
    from shared import bounded_yaml

    return report_failures(bounded_yaml.YAMLError, OSError, ManagerError)
