"""The paths in an instance's directory, shared by the supervisor and its callers."""

from dataclasses import dataclass
from pathlib import Path

ADMIN = "admin"
"""The user with all rights, and the file name of its kubeconfig."""

LOCKED = 75
"""Exit status of a second supervisor for one instance (EX_TEMPFAIL)."""


@dataclass(frozen=True)
class Layout:
    """The paths below the directory `root` of one instance. `root` must be absolute."""

    root: Path

    @property
    def state(self) -> Path:
        """The state file, see `state.State`."""
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """The file that the supervisor locks (flock) until it ends."""
        return self.root / "lock"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.kubeconfig_of(ADMIN)

    def kubeconfig_of(self, user: str) -> Path:
        """Returns the path of a user's kubeconfig."""
        return self.root / f"{user}.kubeconfig"

    @property
    def data(self) -> Path:
        """The data directory of etcd."""
        return self.root / "etcd"

    @property
    def run(self) -> Path:
        """Working directory of the servers, because etcd's unix sockets are named relative to it."""
        return self.root / "run"

    @property
    def pki(self) -> Path:
        """The directory of certificates and keys."""
        return self.root / "pki"

    def certificate(self, name: str) -> Path:
        """Returns the path of a certificate (PEM)."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Returns the path of a private key (PEM)."""
        return self.pki / f"{name}.key"

    @property
    def webhooks(self) -> Path:
        """The directory with the certificate for a server of webhooks."""
        return self.pki / "webhooks"

    @property
    def tokens(self) -> Path:
        """The admin's bearer token, in the form in which the API server reads it (CSV)."""
        return self.pki / "tokens.csv"

    def log(self, name: str) -> Path:
        """Returns the path of the log of a server or of the supervisor."""
        return self.root / "logs" / f"{name}.log"

    def create(self) -> None:
        """Creates all directories with mode 0700. Raises OSError."""
        for directory in (self.root, self.data, self.run, self.pki, self.log("any").parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
