"""Clients from kubeconfigs and the environment: what is accepted, refused, and left to the kubernetes library."""

from __future__ import annotations

import base64
import stat
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.forwarder.__main__ import main
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.kube import ApiError, Client, connect
from shared.kube.connect import KubeconfigError, inline_credentials
from shared.kube.credentials import Credentials
from shared.kube.loading_rules import load

CA = CertificateAuthority.generate("test")
CLIENT = CA.issue("admin", ["system:masters"])


SECRET = "s3cr3t-v4lu3"
BOMB = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 9)) for level in range(1, 12)
)


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


def test_inline_certificate_becomes_credentials() -> None:
    user = {"client-certificate-data": b64(CLIENT.cert_pem), "client-key-data": b64(CLIENT.key_pem)}
    cluster = {"certificate-authority-data": b64(CA.cert_pem), "tls-server-name": "n"}
    found = inline_credentials(kubeconfig(user, **cluster))
    assert (found.host, found.ca, found.certificate, found.key) == (
        "https://h:1",
        CA.cert_pem,
        CLIENT.cert_pem,
        CLIENT.key_pem,
    )
    assert (found.verify, found.server_name, found.token) == (True, "n", None)
    assert found.pool(4) is not None
    assert "PRIVATE" not in repr(found)


def test_yaml_bomb_does_not_exhaust_memory() -> None:
    assert len(BOMB) < 700
    code = f"""
import resource
from shared.kube import connect

resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))
try:
    connect.workload({BOMB!r})
except connect.KubeconfigError:
    print("refused")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "refused\n"


def test_line_break_after_token_is_stripped() -> None:
    assert inline_credentials(kubeconfig({"token": "t\n"})).bearer() == "t"


def test_invalid_token_is_not_quoted() -> None:
    """Such a token may come from an exec plugin, so it is only checked with the request."""
    client = Client(Credentials("http://127.0.0.1:1", token=lambda: f"{SECRET}\nX: y"))
    with pytest.raises(ApiError, match="bearer token") as caught:
        client.request("GET", "/version")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_inline_token_becomes_credentials() -> None:
    found = inline_credentials(kubeconfig({"token": "t"}))
    assert found.token is not None
    assert found.token() == "t"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a mapping"),
        (b"{", "not valid YAML"),
        (b"[" * 100_000, "not valid YAML"),
        (BOMB, "not valid YAML"),
        (b"current-context: c\ncontexts: 5", "no context named 'c'"),
        (b"current-context: c\ncontexts: null", "no context named 'c'"),
        (b"current-context: c\ncontexts: [5, {name: c, context: 7}]", "no context named 'c'"),
        (b"current-context: [c]\ncontexts: []", "no context named"),
        (b"contexts: []", "no context named"),
        (b"current-context: c\ncontexts: [{name: c, context: {cluster: {}, user: u}}]", "no cluster named"),
        (kubeconfig({"token": {"a": "b"}}), "token is not a string"),
        (kubeconfig(server={"a": "b"}), "server is not a string"),
        (kubeconfig(server=None), "has no server"),
        (kubeconfig(server="https://[::1"), "server is not an http"),
        (kubeconfig(server="https://h:99999999"), "server is not an http"),
        (kubeconfig(server="https://u:p4ssw0rd@h"), "server contains credentials"),
        (kubeconfig({"token": f"{SECRET}\r\nX-Evil: 1"}), "token has invalid characters"),
        (kubeconfig({"token": f"{SECRET} {SECRET}"}), "token has invalid characters"),
        (kubeconfig(**{"proxy-url": f"socks5://u:{SECRET}@p"}), "proxy-url is not an http"),
        (kubeconfig(**{"proxy-url": f"http://u:{SECRET}@p:port"}), "proxy-url is not an http"),
        (kubeconfig({"exec": {"command": "x"}}), "runs a command"),
        (kubeconfig({"auth-provider": {"name": "x"}}), "auth provider"),
        (kubeconfig({"client-key": "/etc/shadow"}), "reads a key file"),
        (kubeconfig({"client-certificate": "/etc/passwd"}), "reads a certificate file"),
        (kubeconfig({"tokenFile": "/etc/passwd"}), "reads a token file"),
        (kubeconfig(**{"certificate-authority": "/etc/passwd"}), "reads a CA file"),
        (kubeconfig(server="file:///etc/passwd"), "not an http"),
        (kubeconfig({"client-key-data": "%%%"}), "client-key-data is not base64"),
        (b"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]", "no cluster named 'k'"),
    ],
)
def test_unusable_workload_kubeconfig_is_refused_without_quoting_secrets(content: bytes, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words) as caught:
        connect.workload(content)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_invalid_pem_is_refused() -> None:
    user = {"client-certificate-data": b64(b"garbage"), "client-key-data": b64(b"garbage")}
    with pytest.raises(KubeconfigError, match="cannot be used"):
        connect.workload(kubeconfig(user))
    with pytest.raises(KubeconfigError, match="cannot be used"):
        connect.workload(kubeconfig(**{"certificate-authority-data": b64(b"garbage")}))


def test_user_kubeconfig_may_run_an_exec_plugin(tmp_path: Path) -> None:
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
    assert credentials.ca == CA.cert_pem
    assert connect.from_kubeconfig(str(file)).host == "https://h:1"


def test_missing_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(KubeconfigError, match="absent"):
        connect.management()


def test_pod_uses_its_service_account_and_rereads_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem)
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(connect, "_TOKEN_REREAD", -1.0)
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


def test_missing_service_account_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(KubeconfigError, match=r"service account cannot be used: .*ca\.crt"):
        connect.management()


def test_forwarder_reports_invalid_kubeconfig_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "config").write_text("{")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(SystemExit) as ended:
        main(["--sink", "http://127.0.0.1:9"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"python -m infra.forwarder: {file}: kubeconfig is not valid YAML\n"


@pytest.mark.parametrize(
    ("environment", "proxied"),
    [
        ({}, False),
        ({"https_proxy": "http://p:3128"}, True),
        ({"https_proxy": "p:3128"}, True),
        ({"HTTPS_PROXY": "p:3128"}, True),
        ({"HTTPS_PROXY": "p:3128", "https_proxy": ""}, False),
        ({"https_proxy": "http://p:3128", "no_proxy": "h"}, False),
        ({"all_proxy": "http://p:3128"}, False),
    ],
)
def test_proxy_variables_are_honoured_like_kubectl(
    environment: dict[str, str], proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pool = inline_credentials(kubeconfig()).pool(2)
    assert (getattr(pool, "proxy", None) is not None) is proxied


@pytest.mark.parametrize("proxy", [f"socks5://u:{SECRET}@p:1", f"http://u:{SECRET}@p:port", "p\\@q:1"])
def test_invalid_proxy_setting_is_named_without_its_credentials(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(KubeconfigError, match=r"the setting https_proxy is not an http\(s\) URL") as caught:
        connect.workload(kubeconfig())
    assert SECRET not in str(caught.value)


CA_DATA = {"certificate-authority-data": b64(CA.cert_pem)}


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (kubeconfig({"token": "a"}, **CA_DATA), kubeconfig({"token": "a"}, **CA_DATA) + b"\n", True),
        (kubeconfig({"token": "a"}, **CA_DATA), kubeconfig({"token": "b"}, **CA_DATA), False),
        (kubeconfig(**CA_DATA), kubeconfig(**CA_DATA, **{"tls-server-name": "n"}), False),
        (kubeconfig(**CA_DATA), kubeconfig(**CA_DATA, **{"proxy-url": "http://p:1"}), False),
        (kubeconfig(**CA_DATA), kubeconfig(), False),
        (kubeconfig(**CA_DATA), kubeconfig(**CA_DATA | {"server": "https://h:2"}), False),
        (
            kubeconfig(**{"insecure-skip-tls-verify": True}),
            kubeconfig(**{"insecure-skip-tls-verify": True}) + b"\n",
            False,
        ),
        (kubeconfig(server="http://127.0.0.1:1"), kubeconfig(server="http://127.0.0.1:1") + b"\n", False),
    ],
    ids=["same", "user", "server name", "proxy", "CA", "port", "not verified", "no TLS"],
)
def test_discovery_is_shared_for_one_user_of_one_verified_server(one: bytes, other: bytes, shared: bool) -> None:
    clients = Clients()
    first, second = clients.workload(one), clients.workload(other)
    assert first is not second
    assert (first.discovery is second.discovery) is shared
