"""The certificates and the kubeconfigs in an instance's directory: made once, kept over restarts."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local_control_plane import files, servers
from infra.local_control_plane.layout import Layout

if TYPE_CHECKING:
    from shared.certificates import Authority, KeyPair

_NAMES = ("ca", "apiserver", "admin", "service-account")


def prepare(layout: Layout, users: Mapping[str, str]) -> None:
    """Make what is missing: CA, serving certificate, admin's client certificate, service account keys.

    `users` get client certificates too: what Kubernetes calls them, by what their files are called. Raises
    OSError, and ValueError if there is a CA that cannot be used.
    """
    missing = [name for name in (*_NAMES, *users) if not layout.certificate(name).exists()]
    if not missing:
        return
    from shared import certificates  # slow to import, and needed on the first start only

    if "ca" in missing:
        save_authority(layout, certificates.Authority.generate(f"{layout.root.name[:50]}-ca"))
    ca = load_authority(layout)
    as_long_as_the_ca = 100 * certificates.YEAR
    if "apiserver" in missing:
        pair = ca.issue(
            "kube-apiserver",
            dns=servers.SERVICE_NAMES,
            ips=servers.SERVICE_ADDRESSES,
            server=True,
            valid_for=as_long_as_the_ca,
        )
        _save(layout, "apiserver", pair)
    if "admin" in missing:
        _save(layout, "admin", ca.issue("admin", ["system:masters"], valid_for=as_long_as_the_ca))
    if "service-account" in missing:
        _save(layout, "service-account", certificates.service_account_keys())
    for name in users.keys() & missing:
        _save(layout, name, ca.issue(users[name], valid_for=as_long_as_the_ca))


def load_authority(layout: Layout) -> "Authority":
    """Raises OSError if the instance has no CA yet, ValueError if it is not usable."""
    from shared.certificates import Authority

    return Authority.load(layout.certificate("ca").read_bytes(), layout.key("ca").read_bytes())


def save_authority(layout: Layout, authority: "Authority") -> None:
    _save(layout, "ca", authority)


def write_kubeconfig(layout: Layout, url: str, owner: str = "admin") -> None:
    """Write the kubeconfig of `owner` for the server at `url`, all inline, unless it is there already."""
    target = layout.kubeconfig_of(owner)
    if target.exists() and f"server: {url}\n" in target.read_text():
        return
    import yaml

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    name = layout.root.name
    user = f"{name}-{owner}"
    cluster = {"server": url, "certificate-authority-data": inline(layout.certificate("ca"))}
    credentials = {
        "client-certificate-data": inline(layout.certificate(owner)),
        "client-key-data": inline(layout.key(owner)),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    files.write(target, yaml.safe_dump(document, sort_keys=False))


def _save(layout: Layout, name: str, pair: "KeyPair | Authority") -> None:
    # The certificate last: its presence says that the pair is complete.
    files.write(layout.key(name), pair.key_pem)
    files.write(layout.certificate(name), pair.cert_pem)
