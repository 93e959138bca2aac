"""Which runtime runs the control planes of KINDClusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.kind_cluster.runtime import InstanceSpec, RuntimeUnavailable, check_allowed, from_env, runtime_for
from infra.local.kind_clusters import setting
from infra.local.kind_runtime import LocalRuntime


@pytest.mark.parametrize("name", ["", "local"])
def test_local_processes_are_the_default_runtime(name: str, tmp_path: Path) -> None:
    runtime = from_env({"KIND_RUNTIME": name, "CAPI_FUNCTIONS_DATA": str(tmp_path)})
    assert isinstance(runtime, LocalRuntime)
    assert runtime.inspect(InstanceSpec("uid", "dev")).phase == "absent"


def test_runtime_of_the_object_precedes_that_of_the_installation(tmp_path: Path) -> None:
    env = {"KIND_RUNTIME": "bogus", "CAPI_FUNCTIONS_DATA": str(tmp_path)}
    assert isinstance(runtime_for({"spec": {"runtime": "local"}}, env), LocalRuntime)
    with pytest.raises(RuntimeUnavailable, match="KIND_RUNTIME=bogus"):
        runtime_for({"spec": {}}, env)


@pytest.mark.parametrize(
    ("setting", "runtime", "refused"),
    [
        ("", None, ""),
        ("", "local", ""),
        ("", "kind", "KIND_RUNTIME=local, which does not allow the runtime kind"),
        (
            "local",
            "kind",
            "to allow it, run the functions with the option --kind of `capi-functions up`, or KIND_RUNTIME=local,kind",
        ),
        ("none", None, "create no clusters for KINDClusters; .* with `capi-functions run --kind`"),
        ("none", "kind", "create no clusters for KINDClusters"),
        ("kind", None, ""),
        ("kind", "local", "KIND_RUNTIME=kind, which does not allow the runtime local"),
        ("local, kind", None, ""),
        ("local, kind", "kind", ""),
    ],
)
def test_only_an_allowed_runtime_creates(setting: str, runtime: str | None, refused: str) -> None:
    """The runtime kind amounts to root on the machine, so its operator decides, not the author of a KINDCluster."""
    kind_cluster = {"spec": {"runtime": runtime} if runtime else {}}
    if not refused:
        check_allowed(kind_cluster, {"KIND_RUNTIME": setting})
        return
    with pytest.raises(RuntimeUnavailable, match=refused) as reported:
        check_allowed(kind_cluster, {"KIND_RUNTIME": setting})
    assert reported.value.reason == "RuntimeNotAllowed"


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({"allowed": False}, "local,kind", "none"),
        ({"allowed": True}, "local", "kind"),
        ({"allowed": False, "local": True}, "", "local"),
        ({"allowed": True, "local": True}, "", "local,kind"),
        ({"allowed": True, "local": True}, "kind,local", "kind,local"),
        ({"allowed": False, "local": True}, "kind", "kind"),
    ],
)
def test_flag_allows_containers(options: dict[str, bool], given: str, expected: str) -> None:
    """`run` heeds the flag only; whoever starts a local run may also have set the variable."""
    assert setting(**options, env={"KIND_RUNTIME": given}) == {"KIND_RUNTIME": expected}


def test_first_runtime_of_the_setting_is_the_default(tmp_path: Path) -> None:
    env = {"KIND_RUNTIME": "local,bogus", "CAPI_FUNCTIONS_DATA": str(tmp_path)}
    assert isinstance(runtime_for({"spec": {}}, env), LocalRuntime)


def test_unknown_runtime_is_refused_with_the_names_of_those_installed() -> None:
    with pytest.raises(
        RuntimeUnavailable, match="KIND_RUNTIME=bogus: this runtime is not installed; installed: kind, local"
    ):
        from_env({"KIND_RUNTIME": "bogus"})


def test_a_pod_has_no_default_runtime() -> None:
    with pytest.raises(RuntimeUnavailable, match="the default `local` does not work in a pod"):
        from_env({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


@pytest.mark.parametrize("uid", ["", "../other", "a/b"])
def test_uid_that_is_no_folder_name_is_refused(uid: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="cannot name a folder"):
        from_env({"CAPI_FUNCTIONS_DATA": str(tmp_path)}).inspect(InstanceSpec(uid, "dev"))
