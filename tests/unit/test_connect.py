"""From kubeconfigs and surroundings to credentials; what is refused, and what is left to the library."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.certificates import Authority
from shared.kube import connect
from shared.kube.connect import KubeconfigError, inline
from shared.kube.loading_rules import load

CA = Authority.generate("test")
CLIENT = CA.issue("admin", ["system:masters"])


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(user: dict[str, Any] | None = None, **cluster: Any) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [
            {"name": "other", "context": {"cluster": "nope", "user": "nope"}},
            {"name": "c", "context": {"cluster": "k", "user": "u"}},
        ],
        "clusters": [{"name": "k", "cluster": {"server": "https://h:1", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    return yaml.safe_dump(document).encode()


def test_inline_certificate() -> None:
    user = {"client-certificate-data": b64(CLIENT.cert_pem), "client-key-data": b64(CLIENT.key_pem)}
    found = inline(kubeconfig(user, **{"certificate-authority-data": b64(CA.cert_pem), "tls-server-name": "n"}))
    assert (found.host, found.authority, found.certificate, found.key) == (
        "https://h:1",
        CA.cert_pem,
        CLIENT.cert_pem,
        CLIENT.key_pem,
    )
    assert (found.verify, found.server_name, found.token) == (True, "n", None)
    assert found.pool(4) is not None
    assert "PRIVATE" not in repr(found)


def test_inline_token() -> None:
    found = inline(kubeconfig({"token": "t"}))
    assert found.token is not None
    assert found.token() == "t"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a mapping"),
        (b"{", "not valid YAML"),
        (b"[" * 100_000, "not valid YAML"),
        (kubeconfig({"exec": {"command": "x"}}), "runs a command"),
        (kubeconfig({"auth-provider": {"name": "x"}}), "auth provider"),
        (kubeconfig({"client-key": "/etc/shadow"}), "reads a key file"),
        (kubeconfig({"client-certificate": "/etc/passwd"}), "reads a certificate file"),
        (kubeconfig({"tokenFile": "/etc/passwd"}), "reads a token file"),
        (kubeconfig(**{"certificate-authority": "/etc/passwd"}), "reads a CA file"),
        (kubeconfig(server="file:///etc/passwd"), "no http"),
        (kubeconfig({"client-key-data": "%%%"}), "client-key-data is not base64"),
        (b"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]", "no cluster named 'k'"),
    ],
)
def test_refused(content: bytes, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        connect.workload(content)


def test_garbage_where_pem_should_be() -> None:
    user = {"client-certificate-data": b64(b"garbage"), "client-key-data": b64(b"garbage")}
    with pytest.raises(KubeconfigError, match="cannot be used"):
        connect.workload(kubeconfig(user))
    with pytest.raises(KubeconfigError, match="cannot be used"):
        connect.workload(kubeconfig(**{"certificate-authority-data": b64(b"garbage")}))


def test_the_users_own_kubeconfig_may_run_a_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "minted"}}'
    )
    plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
    plugin.chmod(stat.S_IRWXU)
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CA.cert_pem)
    execute = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    file = tmp_path / "config"
    file.write_bytes(kubeconfig({"exec": execute}, **{"certificate-authority": str(ca)}))
    credentials = connect._by_library(load([file]))
    assert credentials.token is not None
    assert credentials.token() == "minted"
    assert credentials.authority == CA.cert_pem
    assert connect.from_kubeconfig(str(file)).host == "https://h:1"


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(KubeconfigError, match="absent"):
        connect.management()


def test_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem)
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(connect, "_TOKEN_LIVES", -1.0)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    credentials = connect._in_cluster()
    assert credentials.host == "https://[fd00::1]:6443"
    assert credentials.token is not None
    assert credentials.token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert credentials.token() == "second"
    assert connect.management().host == "https://[fd00::1]:6443"


@pytest.mark.parametrize(
    ("environment", "proxied"),
    [({}, False), ({"https_proxy": "http://p:3128"}, True), ({"https_proxy": "http://p:3128", "no_proxy": "h"}, False)],
)
def test_proxies(environment: dict[str, str], proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pool = inline(kubeconfig()).pool(2)
    assert (getattr(pool, "proxy", None) is not None) is proxied
