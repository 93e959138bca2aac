"""Creates the certificates, the admin's token and the kubeconfigs in an instance's directory.

`prepare` keeps existing files. `write_kubeconfig` keeps a kubeconfig that has the URL of the API server. The admin has
a token: the API server verifies a client certificate at each request, a sixth of the CPU time of a small read.
"""

import base64
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local_control_plane import files, servers
from infra.local_control_plane.layout import ADMIN, Layout
from infra.local_control_plane.network import Network

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority, KeyPair

_KEY_PAIRS = ("ca", "apiserver", "service-account")


def prepare(layout: Layout, users: Mapping[str, str], network: Network | None = None) -> None:
    """Creates the files that are missing: token, CA, serving and client certificates, service account keys.

    Args:
        layout: The paths of the instance.
        users: Users to issue client certificates for, beside the admin: the name in Kubernetes by the file name.
        network: The network of pods that the API server is in, if there is one.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: The CA of the instance is not usable.
    """
    if not layout.tokens.exists():
        files.write(layout.tokens, f'{os.urandom(32).hex()},{ADMIN},{ADMIN},"system:masters"\n')
    wanted = (*_KEY_PAIRS, *users, *([servers.KUBELET_CLIENT] if network and network.has_node else ()))
    missing = [name for name in wanted if not layout.certificate(name).exists()]
    if not missing:
        return
    from shared import certificates  # slow to import, and most starts do not need it

    if "ca" in missing:
        save_ca(layout, certificates.CertificateAuthority.generate(f"{layout.root.name[:50]}-ca"))
    ca = load_ca(layout)
    as_long_as_the_ca = 100 * certificates.YEAR
    if "apiserver" in missing:
        pair = ca.issue(
            "kube-apiserver",
            dns=servers.SERVICE_NAMES,
            ips=[*servers.SERVICE_ADDRESSES, *(network.addresses if network else ())],
            server=True,
            valid_for=as_long_as_the_ca,
        )
        _save(layout, "apiserver", pair)
    if "service-account" in missing:
        _save(layout, "service-account", certificates.service_account_keys())
    if servers.KUBELET_CLIENT in missing:
        pair = ca.issue(servers.KUBELET_CLIENT, ["system:masters"], valid_for=as_long_as_the_ca)
        _save(layout, servers.KUBELET_CLIENT, pair)
    for name in users.keys() & missing:
        _save(layout, name, ca.issue(users[name], valid_for=as_long_as_the_ca))


def admin_token(layout: Layout) -> str:
    """Returns the admin's bearer token. Raises OSError if there is none yet."""
    return layout.tokens.read_text().partition(",")[0]


def load_ca(layout: Layout) -> "CertificateAuthority":
    """Returns the CA of the instance. Raises OSError if there is none yet, ValueError if it is not usable."""
    from shared.certificates import CertificateAuthority

    return CertificateAuthority.load(layout.certificate("ca").read_bytes(), layout.key("ca").read_bytes())


def save_ca(layout: Layout, ca: "CertificateAuthority") -> None:
    """Writes `ca` as the CA of the instance. Raises OSError."""
    _save(layout, "ca", ca)


def issue_user(layout: Layout, name: str, groups: Iterable[str]) -> None:
    """Issues a client certificate for a user with these groups. Its file name is `user-<name>`."""
    _save(layout, f"user-{name}", load_ca(layout).issue(name, groups))


def issue_webhooks(layout: Layout) -> None:
    """Issues a certificate for a server of webhooks on this machine. Its files have the names that managers expect."""
    pair = load_ca(layout).issue("webhooks", dns=["localhost"], ips=servers.HOSTS.values(), server=True)
    layout.webhooks.mkdir(mode=0o700, exist_ok=True)
    files.write(layout.webhooks / "tls.key", pair.key_pem)
    files.write(layout.webhooks / "tls.crt", pair.cert_pem)


def write_kubeconfig(layout: Layout, url: str, user: str = ADMIN, *, renew: bool = False) -> None:
    """Writes the self-contained kubeconfig of a user for the server at `url`.

    A kubeconfig with that URL is kept, unless `renew` is set. `user` is the admin, or the file name of the user's
    certificate.
    """
    target = layout.kubeconfig_of(user)
    if not renew and target.exists() and f"server: {url}\n" in target.read_text():
        return
    import yaml

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    name = layout.root.name
    user_name = f"{name}-{user}"
    cluster = {"server": url, "certificate-authority-data": inline(layout.certificate("ca"))}
    if user == ADMIN:
        credentials = {"token": admin_token(layout)}
    else:
        certificate, key = inline(layout.certificate(user)), inline(layout.key(user))
        credentials = {"client-certificate-data": certificate, "client-key-data": key}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user_name, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user_name}}],
        "current-context": name,
    }
    files.write(target, yaml.safe_dump(document, sort_keys=False))


def _save(layout: Layout, name: str, pair: "KeyPair | CertificateAuthority") -> None:
    # The certificate is written last: if it exists, the pair is complete.
    files.write(layout.key(name), pair.key_pem)
    files.write(layout.certificate(name), pair.cert_pem)
