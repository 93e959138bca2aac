"""The object store of functions in a cluster, as `capi-functions dead-letter --kubeconfig` finds it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.operations.deployed_store import store_settings
from infra.operations.failure import Failure
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Client
from shared.settings import STORAGE
from tests.support.objects import manifest


def test_settings_are_read_from_config_map_and_secret(management: Client, namespace: str) -> None:
    with pytest.raises(Failure, match="neither ConfigMap nor Secret"):
        store_settings(management, namespace)
    data = {"CAPI_FUNCTIONS_BUCKET": "letters", "PATH": "/other"}
    management.create(CONFIG_MAP, manifest(CONFIG_MAP, STORAGE.name, namespace, data=data))
    secret = {"AWS_ACCESS_KEY_ID": base64.b64encode(b"key").decode()}
    management.create(SECRET, manifest(SECRET, STORAGE.name, namespace, data=secret))
    found = store_settings(management, namespace)
    assert found == {"CAPI_FUNCTIONS_BUCKET": "letters", "AWS_ACCESS_KEY_ID": "key"}


def test_folder_of_a_pod_is_refused(management: Client, namespace: str, kubeconfig: Path) -> None:
    data = {"CAPI_FUNCTIONS_STORE": "file:///var/lib/store"}
    management.create(CONFIG_MAP, manifest(CONFIG_MAP, STORAGE.name, namespace, data=data))
    options = ["--kubeconfig", str(kubeconfig), "-n", namespace]
    result = CliRunner().invoke(app, ["dead-letter", "list", *options])
    assert result.exit_code == 1
    assert "is a folder of a pod; `kubectl exec deployment/NAME" in result.stderr
