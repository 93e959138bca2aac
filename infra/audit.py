"""Checks the components of the image: `make audit`.

    vulnerabilities   known ones of its Python packages, from PyPI by pip-audit
    licences          each package has a licence that permits what the project does
    changes           packages of the image and Go modules of helm that were added, removed or changed since a commit

Debian's packages and Go's modules are pinned by digest; a scanner with the SBOM of the image
(`out/capi-functions.spdx.json`) finds their vulnerabilities.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

PROJECT = Path(__file__).parent.parent
REQUIREMENTS = "infra/image/requirements.txt"
DEBIAN = "infra/image/debian.txt"
HELM = "infra/binaries/helm/go.mod"

PERMITTED = re.compile(
    r"\b(apache|mit|0?bsd|isc|psf|python software foundation|mpl|mozilla|unlicense|zlib)\b", re.IGNORECASE
)
"""Permissive licences, and MPL-2.0, which concerns changes of the files themselves only."""

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_MODULE = re.compile(r"^[ \t]+(?:tool )?([^\s/]+/\S+) (v\S+)", re.MULTILINE)
_CLASSIFIER = "License :: "


def main() -> int:
    """Runs the checks. Returns 1 if one of them finds something for a person to check."""
    options = argparse.ArgumentParser(prog="python -m infra.audit", description=__doc__)
    options.add_argument("checks", nargs="*", metavar="CHECK", help="names of checks; default: all")
    options.add_argument("--since", default="", metavar="COMMIT", help="for `changes` (default: the newest tag)")
    chosen = options.parse_args()
    checks: Mapping[str, Callable[[], bool]] = {
        "vulnerabilities": vulnerabilities,
        "licences": licences,
        "changes": lambda: changes(chosen.since),
    }
    if unknown := {*chosen.checks} - checks.keys():
        options.error(f"there is no check {', '.join(sorted(unknown))}")
    results = [check() for name, check in checks.items() if not chosen.checks or name in chosen.checks]
    return 0 if all(results) else 1


def vulnerabilities() -> bool:
    """Prints the known vulnerabilities of the Python packages. Returns True, with a note, if PyPI does not answer."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pip_audit", "--requirement", REQUIREMENTS, "--require-hashes", "--disable-pip"),
            *("--format", "json", "--progress-spinner", "off"),
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        audited = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"vulnerabilities: not checked, since pip-audit failed: {run.stderr.strip()[-300:]}")
        return True
    skipped = [one for one in audited if "skip_reason" in one]
    if len(skipped) == len(audited):
        print("vulnerabilities: not checked, since PyPI's vulnerability service does not answer; run this online")
        return True
    found = [(one["name"], one["version"], entry["id"]) for one in audited for entry in one.get("vulns", ())]
    for name, version, identifier in found:
        print(f"vulnerabilities: {name} {version} has {identifier}")
    print(f"vulnerabilities: {len(found)} in {len(audited) - len(skipped)} packages; {len(skipped)} not checked")
    return not found


def licences() -> bool:
    """Prints each Python package of the image whose licence is unknown or not permitted."""
    refused = []
    pinned = pins((PROJECT / REQUIREMENTS).read_text())
    for name in pinned:
        try:
            declared = licence(Distribution.from_name(name))
        except PackageNotFoundError:
            declared = "unknown: the package is not installed here"
        if not PERMITTED.search(declared):
            refused.append(f"{name}: {declared or 'none declared'}")
    for line in refused:
        print(f"licences: {line}")
    print(f"licences: {len(pinned) - len(refused)} of {len(pinned)} Python packages have a permitted licence")
    return not refused


def licence(distribution: Distribution) -> str:
    """Returns the licence that a package declares: as an expression, by classifiers, or in the first line of a text."""
    declared = distribution.metadata.json
    classified = [str(text) for text in declared.get("classifier", ()) if str(text).startswith(_CLASSIFIER)]
    expression = declared.get("license_expression") or "; ".join(text.rpartition(":: ")[2] for text in classified)
    return str(expression or str(declared.get("license", "")).strip().partition("\n")[0])


def changes(since: str) -> bool:
    """Prints the changes of the image since a commit. Returns True, because a person judges them."""
    since = since or _git("describe", "--tags", "--abbrev=0")
    if not since:
        print("changes: not listed, since the repository has no tag; name a commit with --since")
        return True
    count = 0
    for path, versions in ((REQUIREMENTS, pins), (DEBIAN, debian), (HELM, modules)):
        before, after = versions(_git("show", f"{since}:{path}")), versions((PROJECT / path).read_text())
        for line in differences(before, after):
            count += 1
            print(f"changes: {Path(path).parent.name}: {line}")
    print(f"changes: {count} since {since}")
    return True


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each name that was added, removed, or has another version."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None:
            yield f"{name} {new} added"
        elif new is None:
            yield f"{name} {old} removed"
        elif old != new:
            yield f"{name} {old} -> {new}"


def pins(requirements: str) -> dict[str, str]:
    """Returns the versions in a file of requirements, by name."""
    return dict(_PIN.findall(requirements))


def debian(lock: str) -> dict[str, str]:
    """Returns the versions in the lock of Debian's packages, by architecture and name."""
    rows = (line.split() for line in lock.splitlines() if not line.startswith("#"))
    return {f"{row[0]}/{row[1]}": row[2] for row in rows if len(row) > 2}


def modules(go_mod: str) -> dict[str, str]:
    """Returns the versions of the modules that a `go.mod` requires, by path."""
    return dict(_MODULE.findall(go_mod))


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
