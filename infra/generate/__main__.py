"""`python -m infra.generate [--check]`: writes all generated files, or prints how they differ and exits 1."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from functions import catalog
from functions.cluster_hooks.access import ACCESS
from infra import reference
from shared.api.models import CUSTOM_RESOURCES
from shared.triggers import Triggers

from . import chart, console, crds, docs, forwarder, hooks, knative, profiles, serving, single, sources
from .files import NOTICE

PROJECT = Path(__file__).parents[2]
FOLDERS = ("infra/chart", "infra/manifests", "docs/reference")
"""Folders in which generated files that are no longer generated are deleted."""


def generated(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of every generated file by its path in the project."""
    return (
        {f"infra/manifests/crds/{name}": text for name, text in crds.files(CUSTOM_RESOURCES).items()}
        | {f"infra/manifests/base/{name}": text for name, text in knative.files(declared).items()}
        | {f"infra/manifests/event-policy/{name}": text for name, text in knative.policy_files().items()}
        | {f"infra/manifests/forwarder/{name}": text for name, text in forwarder.files(declared).items()}
        | {f"infra/manifests/sources/{name}": text for name, text in sources.files(declared).items()}
        | {f"infra/chart/{name}": text for name, text in chart.files(declared).items()}
        | {f"infra/manifests/serving/{name}": text for name, text in serving.files().items()}
        | {f"infra/manifests/single/{name}": text for name, text in single.files(declared).items()}
        | {f"infra/manifests/profiles/{name}": text for name, text in profiles.files(declared).items()}
        | {f"infra/manifests/hooks/{name}": text for name, text in hooks.files().items()}
        | {f"infra/manifests/console/{name}": text for name, text in console.files().items()}
        | {"docs/triggers.md": docs.triggers_page(declared)}
        | {"docs/chart.md": docs.chart_page()}
        | reference.pages()
        | {"docs/configuration.md": docs.configuration_page({**declared, ACCESS.name: ACCESS})}
    )


def stale(wanted: Mapping[str, str], project: Path) -> dict[str, str | None]:
    """Returns the content to write by path; None for a file to delete."""
    changed: dict[str, str | None] = {path: text for path, text in wanted.items() if _read(project / path) != text}
    present = [path for folder in FOLDERS for path in (project / folder).rglob("*") if path.suffix in (".yaml", ".md")]
    leftover = [path for path in present if str(path.relative_to(project)) not in wanted]
    return changed | {str(path.relative_to(project)): None for path in leftover if NOTICE in _read(path)}


def write(changed: Mapping[str, str | None], project: Path) -> None:
    """Writes and deletes files as `stale` returns them."""
    for path, text in changed.items():
        if text is None:
            (project / path).unlink()
        else:
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is stale")
    options = parser.parse_args(arguments)
    changed = stale(generated(catalog.triggers()), PROJECT)
    if not options.check:
        write(changed, PROJECT)
        sys.stdout.writelines(f"{path}\n" for path in changed)
        return 0
    for path, text in changed.items():
        sys.stdout.writelines(_difference(path, _read(PROJECT / path), text or ""))
    if changed:
        sys.stderr.write(f"stale: {', '.join(changed)}; run `python -m infra.generate`\n")
    return 1 if changed else 0


def _difference(path: str, before: str, after: str) -> Iterable[str]:
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    return difflib.unified_diff(*lines, f"{path} (is)", f"{path} (should be)")


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
