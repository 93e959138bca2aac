"""Reasons in conditions of providers: the API server accepts all, and the documentation names existing ones only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from shared.api.provider import INFRASTRUCTURE
from shared.kube import Client, Key, Object

PROJECT = Path(__file__).parents[3]
CODE = ("functions/provider_*/*.py", "shared/providers/*.py", "shared/components/**/*.py")
_ROW = re.compile(r"^\| `(?:PreflightCheckPassed|Provider\w+|ComponentsAvailable|Deleting)` \| (.*) \|$", re.M)


def given() -> set[str]:
    """Returns all reasons in the code, and some other words, which do no harm."""
    files = [file for pattern in CODE for file in PROJECT.glob(pattern)]
    return {reason for file in files for node in ast.walk(ast.parse(file.read_text())) for reason in _reasons(node)}


def _reasons(node: ast.AST) -> Iterator[str]:
    """Yields arguments after a condition type or a status builder, attributes `reason`, and words before a message."""
    match node:
        case ast.Call(
            args=[ast.Name(), ast.Constant(value="True" | "False" | "Unknown"), ast.Constant(value=reason), *_]
        ):
            yield str(reason)
        case ast.Call(args=[ast.Name(id=before), ast.Constant(value=str(reason)), *_]):
            if before.isupper() or before == "builder":
                yield reason
        case ast.Call(func=ast.Name(id="FailedCheck"), args=[ast.Constant(value=str(reason)), *_]):
            yield reason
        case ast.Assign(targets=[ast.Name(id="reason")], value=ast.Constant(value=str(reason))):
            yield reason
        case ast.Tuple(elts=[ast.Constant(value=str(reason)), _, *_]) if reason[:1].isupper():
            yield reason


def documented() -> set[str]:
    text = (PROJECT / "docs/providers.md").read_text()
    return {reason for row in _ROW.findall(text) for reason in re.findall(r"`(\w+)`", row)}


def test_documented_reasons_exist_in_the_code() -> None:
    assert len(documented()) > 20
    assert documented() - given() == set()


def test_api_server_accepts_all_reasons(management: Client, namespace: str) -> None:
    reasons = sorted(given())
    conditions = [
        {
            "type": f"Of{number}",
            "status": "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for number, reason in enumerate(reasons)
    ]
    made: Object = {"apiVersion": INFRASTRUCTURE.resource.api_version, "kind": INFRASTRUCTURE.kind}
    made |= {"metadata": {"name": "made", "namespace": namespace}, "spec": {}}
    management.create(INFRASTRUCTURE.resource, made)
    key, status = Key(namespace, "made"), {"status": {"conditions": conditions}}
    patched = management.patch(INFRASTRUCTURE.resource, key, status, subresource="status")
    assert [condition["reason"] for condition in patched["status"]["conditions"]] == reasons
