"""kubectl knows the commands of all pages, and an API server accepts their manifests."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from shared.api.models import CUSTOM_RESOURCES
from shared.kube import Object
from tests.support.pages import PAGES, ROOT, Block, blocks, commands

BLOCKS = [block for page in PAGES for block in blocks(page)]
KINDS = {
    (f"{custom.resource.group}/{version}", custom.resource.kind)
    for custom in CUSTOM_RESOURCES
    for version in (custom.resource.version, *custom.also)
}

_OPTION = re.compile(r"^ +(?:(-\w), )?(--[a-z-]+)=", re.MULTILINE)


def manifests() -> list[tuple[str, Object]]:
    """Returns the objects of our kinds in the pages, with their places."""
    found = [(block, obj) for block in BLOCKS if block.is_yaml for obj in yaml.safe_load_all(block.text)]
    return [
        (f"{block.page}:{block.line}", obj) for block, obj in found if isinstance(obj, dict) and _kind(obj) in KINDS
    ]


def _kind(obj: Object) -> tuple[str, str]:
    return obj.get("apiVersion", ""), obj.get("kind", "")


@pytest.mark.parametrize(("place", "obj"), manifests(), ids=lambda value: value if isinstance(value, str) else "")
def test_manifests_of_our_kinds_are_accepted_without_unknown_fields(
    kubectl: Path, kubeconfig: Path, namespace: str, place: str, obj: Object
) -> None:
    obj["metadata"] = {"name": "sample", **obj.get("metadata", {}), "namespace": namespace}
    accepted = subprocess.run(
        [str(kubectl), f"--kubeconfig={kubeconfig}", "create", "--dry-run=server", "--validate=strict", "-f", "-"],
        input=yaml.safe_dump(obj),
        capture_output=True,
        text=True,
        check=False,
    )
    assert accepted.returncode == 0, f"{place}: {accepted.stderr}"


def test_manifests_are_found() -> None:
    assert len(manifests()) > 8


@cache
def options(kubectl: Path, *command: str) -> frozenset[str]:
    """Returns the options of a command of kubectl; empty if there is no such command."""
    text = _printed(kubectl, *command, "--help")
    if f"kubectl {' '.join(command)} " not in text.partition("Usage:")[2]:
        return frozenset()
    found = _OPTION.findall(text + _printed(kubectl, "options"))
    return frozenset(name for names in found for name in names if name)


def _printed(kubectl: Path, *arguments: str) -> str:
    done = subprocess.run([str(kubectl), *arguments], capture_output=True, text=True, check=False)
    return done.stdout


def problems(kubectl: Path, words: list[str]) -> list[str]:
    """Returns the options of a command line that kubectl lacks, or the command."""
    plain = _without_options(words[1:])
    paths = [tuple(plain[:length]) for length in (3, 2, 1)]
    known = next((found for path in paths if (found := options(kubectl, *path))), frozenset())
    if not known:
        return plain[:1]
    return [name for word in words if word[:1] == "-" and not _is_known(known, name := word.partition("=")[0])]


def _is_known(known: frozenset[str], name: str) -> bool:
    return name in known | {"-", "--"} or (name[1] != "-" and name[:2] in known)


_WITH_VALUE = ("-n", "--namespace", "--kubeconfig", "--context", "-s", "--server", "--token", "--as")


def _without_options(words: list[str]) -> list[str]:
    """Returns the words without the options before the command."""
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _WITH_VALUE else 1 :]
    return words


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.is_shell and "kubectl" in block.text],
    ids=lambda block: f"{block.page}:{block.line}",
)
def test_kubectl_has_the_commands_and_options(kubectl: Path, block: Block) -> None:
    found = [words for words in commands(block.text) if words[0] == "kubectl"]
    assert {" ".join(words): wrong for words in found if (wrong := problems(kubectl, words))} == {}
    files = [word for words in found for word in words if word.startswith(("infra/", "examples/"))]
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_wrong_options_are_found(kubectl: Path) -> None:
    assert problems(kubectl, ["kubectl", "get", "pods", "--everywhere"]) == ["--everywhere"]
    assert problems(kubectl, ["kubectl", "-n", "a", "observe", "pods"]) == ["observe"]
    assert problems(kubectl, ["kubectl", "get", "pods", "-oyaml", "-A", "--namespace=b"]) == []
