"""The function that docs/adding-a-function.md builds: its own code blocks, served and run against a real API server."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
import urllib3
import yaml

from functions.cluster.decide import decide
from functions.cluster.observed import Observed
from functions.cluster.status import FINALIZER
from shared.api.resources import CLUSTER
from shared.kube import Client, Key, Object, dig
from tests.support import processes
from tests.support.ports import free_port
from tests.support.until import HANGS, logged, until

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "adding-a-function.md").read_text()
FILES = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
LABEL = "example.org/kubernetes-version"

# Each in a process of its own: the functions of this one are known already.
GENERATE = """
import json
from functions import catalog
from infra.generate.__main__ import generated
print(json.dumps(generated(catalog.triggers())))
"""
SWEEP = """
import json, sys
from datetime import UTC, datetime
from functions.sweep.function import not_reconciled
print(json.dumps([obj["metadata"]["name"] for obj in not_reconciled(json.load(sys.stdin), datetime.now(UTC))]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, beside the project."""
    root = tmp_path_factory.mktemp("added")
    for name, code in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    return root


@pytest.fixture(scope="module")
def environment(folder: Path, kubeconfig: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PROJECT}", "KUBECONFIG": str(kubeconfig)}


@pytest.fixture(scope="module")
def url(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Where the page's command serves the function, on a free port."""
    (command,) = re.findall(r"^    (functions-framework .*version_label.*)$", PAGE, re.MULTILINE)
    port = free_port()
    program, *arguments = shlex.split(command.replace("8080", str(port)))
    log = folder / "log"
    with log.open("wb") as output:
        process = processes.start(
            [str(Path(sys.executable).with_name(program)), *arguments],
            cwd=PROJECT,
            env=environment,
            stdout=output,
            stderr=output,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.poll() is not None or _answers(address), "the function serves", details=logged(log))
        assert process.poll() is None, logged(log)()
        yield address
    finally:
        process.terminate()
        process.wait(HANGS)


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, retries=False, timeout=HANGS).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def run(arguments: list[str], folder: Path, environment: Mapping[str, str], text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cluster(namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    return {
        "apiVersion": CLUSTER.api_version,
        "kind": CLUSTER.kind,
        "metadata": {"name": "demo", "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"topology": {"classRef": {"name": "small"}, "version": "v1.36.2"}},
    }


def test_page_has_all_files_of_a_function_and_its_test() -> None:
    files = [f"functions/version_label/{name}.py" for name in ("__init__", "triggers", "function")]
    assert list(FILES) == [*files, "tests/unit/clusters/test_version_label.py"]


def test_code_of_the_page_passes_the_linter(folder: Path) -> None:
    project, ours = PROJECT / "pyproject.toml", 'lint.isort.known-first-party = ["functions", "shared"]'
    for command in (["check", "--extend-ignore", "D103"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", project, "--config", ours, folder],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_table_of_the_page_passes(folder: Path, environment: Mapping[str, str]) -> None:
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "tests/unit"]
    assert "passed" in run(arguments, folder, environment)


def test_posted_event_sets_the_label_once(url: str, management: Client, namespace: str) -> None:
    management.create(CLUSTER, cluster(namespace))
    (command,) = re.findall(r"^    (curl (?:.*\\\n)*.*)", PAGE, re.MULTILINE)
    words = shlex.split(command.replace("\\\n", " "))
    headers = dict(word.split(": ", 1) for flag, word in pairwise(words) if flag == "-H")
    for _ in range(2):
        answer = urllib3.request("POST", url, headers={**headers, "ce-namespace": namespace}, body=b"{}", timeout=60.0)
        assert answer.status == 204, answer.data
        live = management.get(CLUSTER, Key(namespace, "demo"))
        assert live["metadata"]["labels"] == {LABEL: "v1.36.2"}
    writes = [entry for entry in live["metadata"]["managedFields"] if entry["manager"] == "capi-functions"]
    assert [entry["operation"] for entry in writes] == ["Update"]


def test_manifests_and_docs_contain_the_function(folder: Path, environment: Mapping[str, str]) -> None:
    files = json.loads(run(["-c", GENERATE], folder, environment))
    objects = {
        obj["kind"]: obj for obj in yaml.safe_load_all(files["infra/manifests/base/function-version-label.yaml"])
    }
    assert {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "Service", "Trigger"} == objects.keys()
    allowed = {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["get", "patch"]}
    assert allowed in objects["ClusterRole"]["rules"]
    (container,) = dig(objects["Deployment"], "spec.template.spec.containers")
    assert container["args"][-1] == 'functions_framework:create_app("version_label", "functions/main.py")'
    assert "function-version-label.yaml" in files["infra/manifests/base/kustomization.yaml"]
    assert "| `version_label` | Cluster (cluster.x-k8s.io) | `spec.topology.version`" in files["docs/triggers.md"]


@pytest.mark.parametrize(("labels", "sent"), [({}, ["demo"]), ({LABEL: "v1.36.2"}, [])])
def test_sweep_sends_clusters_without_the_label(
    folder: Path, environment: Mapping[str, str], labels: dict[str, str], sent: list[str]
) -> None:
    """Every other function is done with this Cluster."""
    settled = cluster("default", labels)
    settled["metadata"] |= {"generation": 1, "uid": "u", "finalizers": [FINALIZER]}
    reported = decide(Observed(settled), datetime.now(UTC)).status or {}
    settled["status"] = {name: value for name, value in reported.items() if value is not None}
    assert json.loads(run(["-c", SWEEP], folder, environment, json.dumps([settled]))) == sent
