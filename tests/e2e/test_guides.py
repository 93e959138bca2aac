"""The commands of how-to guides, as written and in their order."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from shared.api.resources import CONFIG_MAP, NAMESPACE, SECRET
from shared.kube import Client, Key
from shared.settings import STORAGE
from shared.storage import ObjectStore
from tests.support.documents import ROOT, Shell, blocks
from tests.support.objects import manifest

DOCS = ROOT / "docs"


def test_stuck_addon_gets_out_and_all_is_removed(shell: Shell) -> None:
    [look] = blocks(DOCS / "stuck-addon.md", "Look")
    [understand] = blocks(DOCS / "stuck-addon.md", "Understand")
    [get_out] = blocks(DOCS / "stuck-addon.md", "Get out")
    deeper, _in_a_cluster = blocks(DOCS / "stuck-addon.md", "Look deeper")
    missing = '{"spec": {"topology": {"classRef": {"name": "local-demo-1-36-v9"}}}}'
    shell.run("capi-functions up --detach\nexport KUBECONFIG=$PWD/.capi-functions/management.kubeconfig")
    shell.run("kubectl apply --server-side -f infra/demo/cluster.yaml")
    shell.run("capi-functions wait addons cluster-addon-demo --timeout 120")
    shell.run(f"kubectl patch cluster demo --type=merge --patch '{missing}'")
    shell.run("kubectl wait clusteraddon cluster-addon-demo --for condition=Ready=false --timeout 1m")
    output = shell.run(look)
    assert "local-demo-1-36-v9" in output
    assert "IssueWithReleaseAssets" in output or "ReleaseAssetsNotDownloadedYet" in output
    assert "to do: " in shell.run(understand)
    shell.run(get_out)
    assert "addon_apply" in shell.run(deeper)

    removing = DOCS / "removing.md"
    [addons] = blocks(removing, "Addons and Clusters")
    [providers] = blocks(removing, "Providers")
    [kinds] = blocks(removing, "The functions")
    [machine] = blocks(removing, "This machine")
    output = shell.run(addons)
    assert 'cluster.cluster.x-k8s.io "demo" deleted' in output
    assert shell.run("kubectl get clusters,clusteraddons,kindclusters,secrets --output=name") == ""
    assert "the cluster has no providers" in shell.run(providers)
    assert "clusterstacks.clusterstack.x-k8s.io" in shell.run(kinds)
    shell.run(machine)
    assert not shell.succeeds("test -e .capi-functions")


@pytest.mark.parametrize(("section", "url"), [("S3", "s3:"), ("Google Cloud", "gs:"), ("Azure", "az:")])
def test_storage_is_opened_with_the_settings_of_the_page(
    management: Client, kubeconfig: Path, shell: Shell, section: str, url: str
) -> None:
    page, at = DOCS / "storage.md", Key("capi-functions", "capi-functions-storage")
    shell.run(f"export KUBECONFIG={kubeconfig}")
    management.apply(NAMESPACE, manifest(NAMESPACE, at.namespace), manager="user")
    [key] = blocks(page)[:1]
    try:
        shell.run(key + "".join(blocks(page, section)))
        settings = management.get(CONFIG_MAP, at)["data"]
        secret = {name: base64.b64decode(value).decode() for name, value in management.get(SECRET, at)["data"].items()}
    finally:
        management.delete(CONFIG_MAP, at)
        management.delete(SECRET, at)
    assert settings["CAPI_FUNCTIONS_STORE"].startswith(url)
    assert {*settings, *secret} <= dict(STORAGE.keys).keys()
    assert {*secret} <= STORAGE.secret
    store = ObjectStore.from_env({**settings, **secret})
    assert settings["CAPI_FUNCTIONS_STORE"] == f"{url}//{store.bucket}/capi"


def test_cluster_with_other_programs_is_examined(shell: Shell, kubeconfig: Path) -> None:
    page = DOCS / "existing-management-cluster.md"
    shell.run(f"export KUBECONFIG={kubeconfig}")
    [look] = blocks(page, "What runs there")
    assert "clusteraddons.clusterstack.x-k8s.io" in shell.run(look)
    [try_it] = blocks(page, "Try it from this machine")
    assert try_it.startswith("capi-functions run --kubeconfig ")  # e2e/test_command_run runs it
    [check] = blocks(page, "Check it")
    shell.run(check)
