"""The life of an addon with everything real: a functions server, an API server, an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.kube import Client
from shared.storage import ObjectStore
from tests.support.addon_journey import AddonJourneys
from tests.support.kill_points import killable_functions, kind_of_write


@pytest.mark.parametrize("in_stages", [False, True], ids=["umbrella chart", "stages"])
def test_addon_is_applied_upgraded_and_deleted(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    in_stages: bool,
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:
        writes = AddonJourneys(functions, management, in_stages=in_stages).take()
    kinds = {kind_of_write(request) for request in writes}
    assert {
        "POST clusteraddons",
        "PUT blobs",
        "PATCH objects",
        "DELETE objects",
        "PATCH clusteraddons/status",
    } <= kinds
