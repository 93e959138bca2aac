"""A worker lets go of the pages that loading a library has read, and of no page that was changed."""

from __future__ import annotations

import pytest

from shared import charts, sandbox
from shared.sandbox import Limits
from shared.sandbox.mapped_files import unchanged
from tests.support.releases import chart


@pytest.mark.parametrize(
    ("rights", "file", "changed", "found"),
    [
        ("r-xp", "/lib/a.so", 0, True),
        ("r--p", "/lib/a.so", 0, True),
        ("r--p", "/lib/with space.so (deleted)", 0, True),
        ("r--p", "/lib/a.so", 4, False),
        ("rw-p", "/lib/a.so", 0, False),
        ("r--p", "", 0, False),
        ("r-xp", "[vdso]", 0, False),
    ],
)
def test_mapping_is_unchanged(rights: str, file: str, changed: int, found: bool) -> None:
    smaps = [
        "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n",
        "Anonymous:             4 kB\n",
        f"7f0000002000-7f0000005000 {rights} 00001000 fe:00 1234    {file}\n",
        "Size:                 12 kB\n",
        f"Anonymous:      {changed:8} kB\n",
        "AnonHugePages:         0 kB\n",
        "7f0000006000-7f0000007000 ---p 00000000 00:00 0 \n",
        "Anonymous:             0 kB\n",
    ]
    assert [*unchanged(smaps)] == ([(0x7F0000002000, 0x3000)] if found else [])


def test_worker_lets_go_of_what_loading_the_helm_library_has_read() -> None:
    limits = Limits(cpu=60, wall=300.0, memory=256)
    rendered = charts.render(chart("c", {"t.yaml": "a: {{ .Values.a }}"}), {"a": 1}, name="c.tgz")
    assert [each.text for each in rendered] == ["a: 1\n"]
    mapped = sandbox.call("tests.support.sandbox_calls:unchanged_kib", "libhelm_c", limits=limits)
    assert 0 < mapped < 20_000, "KiB; it is above 40,000 when the library is loaded"
