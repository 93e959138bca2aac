"""The loading of kubeconfig files, compared with kubectl."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kube import connect
from shared.kube.loading_rules import Kubeconfig, KubeconfigError, default_files, load


def config(**sections: Any) -> dict[str, Any]:
    """`contexts`, `clusters` and `users` by name."""
    singular = {"contexts": "context", "clusters": "cluster", "users": "user"}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    for section, value in sections.items():
        if section in singular:
            value = [{"name": name, singular[section]: inside} for name, inside in value.items()]
        document[section.replace("_", "-")] = value
    return document


def site(name: str, *, current: bool = True, **context: str) -> dict[str, Any]:
    return config(
        **({"current_context": name} if current else {}),
        contexts={name: {"cluster": name, "user": name, **context}},
        clusters={name: {"server": f"https://{name}:6443"}},
        users={name: {"token": f"token-of-{name}"}},
    )


A, B = site("a", namespace="team"), site("b")
WITHOUT_CURRENT = site("quiet", current=False)
OTHER_A = config(
    current_context="late",
    contexts={"a": {"cluster": "b", "user": "late", "namespace": "late"}, "late": {"cluster": "a", "user": "b"}},
    clusters={"a": {"server": "https://late:1", "tls-server-name": "late"}},
    users={"a": {"username": "late", "password": "late"}},
)
ONLY_CURRENT = config(current_context="b")


def write(folder: Path, files: Mapping[str, Any]) -> list[Path]:
    paths = []
    for name, content in files.items():
        paths.append(folder / name)
        if content is not None:
            paths[-1].write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return paths


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a": A}, id="one file"),
        pytest.param({"a": A, "b": B}, id="the first current context counts"),
        pytest.param({"b": B, "a": A}, id="in the order of the list"),
        pytest.param({"quiet": WITHOUT_CURRENT, "b": B}, id="unless it sets none"),
        pytest.param({"only": ONLY_CURRENT, "a": A, "b": B}, id="a context of another file"),
        pytest.param({"a": A, "other": OTHER_A}, id="an entry is of the first file as a whole"),
        pytest.param({"other": OTHER_A, "a": A, "b": B}, id="of three files"),
        pytest.param({"absent": None, "a": A, "gone": None}, id="absent files are passed over"),
        pytest.param({"empty": "", "b": B}, id="an empty file"),
    ],
)
def test_files_are_merged_like_kubectl(
    files: dict[str, Any], tmp_path: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path, files)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    merged = json.loads(subprocess.check_output([kubectl, "config", "view", "--raw", "-o", "json"]))
    minified = json.loads(subprocess.check_output([kubectl, "config", "view", "--minify", "--raw", "-o", "json"]))
    found = load(default_files())
    assert found.document["current-context"] == merged["current-context"] == found.context
    for section in ("contexts", "clusters", "users"):
        assert by_name(found.document[section]) == by_name(merged[section])
    assert found.server == minified["clusters"][0]["cluster"]["server"]
    assert found.namespace == minified["contexts"][0]["context"].get("namespace", "")
    assert connect.from_loaded(found).host == found.server
    assert connect.management().host == found.server


def by_name(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in entries}


def test_empty_entries_of_kubeconfig_variable_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "::/a::/b:")
    assert default_files() == [Path("/a"), Path("/b")]
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", ":"):
        monkeypatch.setenv("KUBECONFIG", value)
        assert default_files() == [tmp_path / ".kube" / "config"]


def test_named_context_is_selected_or_reported_missing(tmp_path: Path) -> None:
    files = write(tmp_path, {"a": A, "b": B})
    found = load(files, "b")
    assert (found.context, found.server, found.namespace) == ("b", "https://b:6443", "")
    assert connect.from_loaded(found).host == "https://b:6443"
    assert str(found) == f"context b of {files[0]}:{files[1]} (https://b:6443)"
    with pytest.raises(KubeconfigError, match=r"no context 'c'; the contexts are a, b"):
        load(files, "c")


def test_relative_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./bin/plugin", "interactiveMode": "Never"}
    one = config(
        current_context="c",
        contexts={"c": {"cluster": "c", "user": "u"}},
        clusters={"c": {"server": "https://c", "certificate-authority": "ca.crt"}},
        users={"u": {"client-certificate": "u.crt", "client-key": "/abs/u.key"}, "in-path": {"exec": {"command": "p"}}},
    )
    two = config(users={"u": {"client-key": "other"}, "v": {"tokenFile": "../token", "exec": plugin}})
    files = [*write(tmp_path / "one", {"config": one}), *write(tmp_path / "two", {"config": two})]
    users = {entry["name"]: entry["user"] for entry in load(files).document["users"]}
    assert load(files).document["clusters"][0]["cluster"]["certificate-authority"] == f"{tmp_path}/one/ca.crt"
    assert users["u"] == {"client-certificate": f"{tmp_path}/one/u.crt", "client-key": "/abs/u.key"}
    assert users["v"]["tokenFile"] == f"{tmp_path}/two/../token"
    assert users["v"]["exec"]["command"] == f"{tmp_path}/two/bin/plugin"
    assert users["in-path"]["exec"]["command"] == "p"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid YAML"),
        ("\x00", "not valid YAML"),
        ("just words", "not a mapping"),
        ("contexts: 5", "contexts is not a list"),
        ("users: [5]", "users is not a list of entries"),
        ("clusters: [{name: c, cluster: 5}]", "clusters is not a list of entries"),
        ("{}", "no current context"),
        (yaml.safe_dump(WITHOUT_CURRENT), "no current context; the contexts are quiet"),
        ("current-context: x", "no context 'x'"),
        ("current-context: [x]", "no context"),
        ("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]", "no cluster named 'k'"),
        ("current-context: c\ncontexts: [{name: c}]\nclusters: [{name: }]", "clusters is not a list"),
    ],
)
def test_errors_name_the_file(content: str, words: str, tmp_path: Path) -> None:
    [file] = write(tmp_path, {"config": content})
    with pytest.raises(KubeconfigError, match=words) as caught:
        connect.from_kubeconfig(str(file))
    assert str(file) in str(caught.value)


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"there is no kubeconfig {tmp_path}/a:{tmp_path}/b"):
        load([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(KubeconfigError, match=f"{tmp_path}: .*directory"):
        load([tmp_path])


def test_entry_without_content_does_not_affect_others(tmp_path: Path) -> None:
    [file] = write(tmp_path, {"config": yaml.safe_dump(A) + ""})
    document = yaml.safe_load(file.read_text())
    document["users"].append({"name": "forgotten", "user": None})
    file.write_text(yaml.safe_dump(document))
    assert isinstance(load([file]), Kubeconfig)
    assert connect.from_kubeconfig(str(file)).host == "https://a:6443"
