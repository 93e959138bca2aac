"""`make audit`: licences, and what changed in the image."""

from __future__ import annotations

from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from infra import audit


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({}, {"a": "1"}, ["a 1 added"]),
        ({"a": "1"}, {}, ["a 1 removed"]),
        ({"a": "1", "b": "1"}, {"a": "2", "b": "1"}, ["a 1 -> 2"]),
    ],
)
def test_differences(before: dict[str, str], after: dict[str, str], lines: list[str]) -> None:
    assert list(audit.differences(before, after)) == lines


def test_versions_are_read_from_locks() -> None:
    assert audit.pins("a==1.0 \\\n    --hash=sha256:0\nb-c==2 ; x\n") == {"a": "1.0", "b-c": "2"}
    assert audit.debian("# x\n20260101T000000Z\namd64 libc6 2.36 0 debian f.deb\n") == {"amd64/libc6": "2.36"}
    assert audit.modules("require (\n\ta.example/b v1.2.3\n\tc.example/d v0.1.0 // indirect\n)\n") == {
        "a.example/b": "v1.2.3",
        "c.example/d": "v0.1.0",
    }


@pytest.mark.parametrize(
    ("metadata", "declared", "permitted"),
    [
        ("License-Expression: Apache-2.0", "Apache-2.0", True),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT License", True),
        ("License: BSD-3-Clause", "BSD-3-Clause", True),
        ("License-Expression: AGPL-3.0-only", "AGPL-3.0-only", False),
        (
            "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
            "GNU General Public License v3 (GPLv3)",
            False,
        ),
        ("Summary: nothing", "", False),
    ],
)
def test_licence(tmp_path: Path, metadata: str, declared: str, permitted: bool) -> None:
    folder = tmp_path / "a-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: a\nVersion: 1\n{metadata}\n")
    found: Distribution = PathDistribution(folder)
    assert audit.licence(found) == declared
    assert bool(audit.PERMITTED.search(declared)) is permitted


def test_every_package_of_the_image_has_a_permitted_licence() -> None:
    assert audit.licences()
