"""Core is upgraded from a release that serves v1beta1 only, beside our functions, with its own conversion webhook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.core_upgrade import upgrade_beside_functions
from tests.support.real_providers import CURRENT

OLDEST = "v1.7.9"


@pytest.mark.timeout(900)
def test_addons_stay_ready_while_core_is_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the oldest release that is supported to the newest one."""
    upgrade_beside_functions(tmp_path, monkeypatch, (OLDEST, CURRENT))
