"""`release`: the commands for authors of cluster stacks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from infra.cli.terminal.output import progress
from infra.operations.failure import Failure
from infra.operations.helm import helm_when_needed

from ..options import AllNamespaces, FormatOptions, Namespace, RegistryOptions, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out, print_either
from ..terminal.text import columns
from .clusters import find_cluster

app = App(name="release", help="List, build, lint and publish releases of cluster stacks.", no_args_is_help=True)


class Mode(StrEnum):
    """The source of a build's versions: the next numbers, the hash of the sources, or options."""

    STABLE = "stable"
    HASH = "hash"
    CUSTOM = "custom"


Folder = Annotated[
    Path, typer.Argument(help="Folder of one release, named like its tag.", exists=True, file_okay=False)
]


@app.command("list", examples=["release list", "release list demo", "release list -A -o json"])
def list_releases(
    *,
    cluster: Annotated[
        str,
        typer.Argument(metavar="CLUSTER", help="Only the classes that this Cluster could move to.", show_default=False),
    ] = "",
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """List the releases in a management cluster: the classes that Clusters can have, and why one is not ready.

    A Cluster could move to the releases of its stack with its Kubernetes minor version, or the next one.
    """
    from dataclasses import asdict

    from infra.operations.release_choices import list_choices

    with report_failures(), management.open() as target:
        found = find_cluster(target, namespace, cluster) if cluster else None
        choices = list_choices(target.client, "" if everywhere else target.namespace(namespace), found)
    if not choices and not output.json:
        err.print("no releases; ClusterStacks provide them, and `capi-functions get stacks -A` lists these")
        return
    rows = [("", "NAMESPACE", "CLASS", "KUBERNETES", "READY", "REASON")]
    for each in choices:
        mark = "*" if each.is_current else ""
        rows.append((mark, each.namespace, each.name, each.kubernetes or "-", str(each.ready), each.reason))
    print_either([asdict(choice) for choice in choices], columns(rows), as_json=output.json)


@app.command(examples=["release build ./stack ./releases", "release build ./stack ./releases --since ./releases"])
def build(
    source: Annotated[
        Path, typer.Argument(help="Folder of a cluster stack, with its csctl.yaml.", exists=True, file_okay=False)
    ],
    out_folder: Annotated[Path, typer.Argument(help="Folder for the release's folder, which is named like its tag.")],
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="stable: the next numbers; hash: v0-sha.<hash>; custom: --version "
            "(default: stable with --since, custom with --version, else hash).",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(help="stable: the existing releases, a folder or the URL of a release source.")
    ] = "",
    version: Annotated[str, typer.Option(help="custom: version of the stack, such as v3 or v0-rc.1.")] = "",
    addon_version: Annotated[str, typer.Option(help="custom: version of the addons (default: the stack's).")] = "",
    node_image_version: Annotated[
        str, typer.Option(help="custom: version of the node images (default: the stack's).")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a different release of the same name.")] = False,
) -> None:
    """Build a release from the sources of a cluster stack. The same sources give the same bytes."""
    from infra.release_tools import build as builder
    from infra.release_tools.push import PushError, publish
    from shared.charts import ChartError
    from shared.download import SourceError
    from shared.releases.metadata import MetadataError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease
    from shared.releases.sources.urls import from_url

    expected = (builder.BuildError, PushError, ChartError, MetadataError, InvalidName, InvalidRelease, SourceError)
    with report_failures(*expected, OSError):
        parts = {"--addon-version": addon_version, "--node-image-version": node_image_version}
        mode = _mode(mode, {"--since": since, "--version": version, **parts})
        if out_folder.resolve().is_relative_to(source.resolve()):
            raise builder.BuildError(f"{out_folder} is inside {source}: the release would be part of its sources")
        stack = builder.load_stack(source)
        if mode is Mode.HASH:
            versions = builder.hash_versions(stack)
        elif mode is Mode.CUSTOM:
            versions = builder.custom_versions(version, addon_version, node_image_version)
        else:
            access = RegistryOptions(os.environ.get("OCI_USERNAME", "")).access()
            versions = builder.next_versions(stack, from_url(since, access if since.startswith("oci") else None))
        release, files = builder.build(stack, versions)
        outcome = publish(release, files, str(out_folder), force=force)
        mark = "built" if outcome == "pushed" else outcome
        out.print(f"{mark}: {escape(str(out_folder / release.name.tag))}")
        _warn_if_replaced(outcome)


def _mode(mode: Mode | None, given: Mapping[str, str]) -> Mode:
    """Returns the mode of a build. Raises `Failure` for an option that the mode ignores, and for a missing one."""
    belongs = {option: Mode.STABLE if option == "--since" else Mode.CUSTOM for option in given}
    options = [option for option, text in given.items() if text]
    mode = mode or (belongs[options[0]] if options else Mode.HASH)
    for option in options:
        if belongs[option] is not mode:
            raise Failure(f"{option} is for --mode {belongs[option].value}, not for {mode.value}")
    if mode is Mode.STABLE and not given["--since"]:
        raise Failure("--mode stable needs --since: the folder or URL of the existing releases")
    if mode is Mode.CUSTOM and not given["--version"]:
        raise Failure("--mode custom needs --version")
    return mode


@app.command(examples=["release lint releases/local-demo-1-36-v1 --cluster cluster.yaml"])
def lint(
    *,
    folder: Folder,
    cluster: Annotated[
        list[Path] | None,
        typer.Option(
            help="File with a Cluster and the objects it refers to, instead of the built-in sample; repeatable.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    output: FormatOptions,
) -> None:
    """Check a release without a cluster: one line for each finding, exit code 1 if one is an error.

    Not checked: the objects and fields that conditions of stages (CEL) name, because these need a cluster.
    """
    import json
    from dataclasses import asdict

    from infra.release_tools.lint import lint as check
    from infra.release_tools.samples import sample_from_file

    with report_failures(ValueError, OSError), helm_when_needed(progress):
        findings = check(folder, [sample_from_file(path) for path in cluster or ()])
    if output.json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
    else:
        lines = [str(finding) for finding in findings] or ["no findings"]
        sys.stdout.writelines(f"{line}\n" for line in lines)
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


@app.command(examples=["release push releases/local-demo-1-36-v1 oci://registry.example.com/stacks"])
def push(
    *,
    folder: Folder,
    to: Annotated[
        str, typer.Argument(help="A folder, s3://<bucket>/<prefix>, oci:// or oci+http://<registry>/<name>.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a different release of the same name.")] = False,
    registry: RegistryOptions,
) -> None:
    """Publish a release atomically. Refuses to replace a different one. For S3, set the usual AWS variables."""
    from infra.release_tools.push import PushError
    from infra.release_tools.push import push as publish
    from shared.download import SourceError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease
    from shared.storage import StorageError

    with report_failures(PushError, InvalidName, InvalidRelease, SourceError, StorageError, OSError):
        outcome = publish(folder, to, registry.access(), force=force)
        out.print(f"{outcome}: {escape(folder.resolve().name)} in {escape(to)}")
        _warn_if_replaced(outcome)


def _warn_if_replaced(outcome: str) -> None:
    if outcome == "replaced":
        err.print("note: functions that have fetched this release keep what they have; a new version reaches all")
