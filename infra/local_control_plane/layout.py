"""The paths in an instance's directory, shared by the supervisor and its callers."""

from pathlib import Path

ADMIN = "admin"
"""The user with all rights, and the file name of its kubeconfig."""

LOCKED = 75
"""Exit status of a second supervisor for one instance (EX_TEMPFAIL)."""


class Layout:
    """The paths below the directory `root` of one instance. `root` must be absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state.json"
        """The state file, see `state.State`."""
        self.lock = root / "lock"
        """The file that the supervisor locks (flock) until it ends."""
        self.kubeconfig = self.kubeconfig_of(ADMIN)
        self.data = root / "etcd"
        """The data directory of etcd."""
        self.run = root / "run"
        """Working directory of the servers, because etcd's unix sockets are named relative to it."""
        self.pki = root / "pki"
        """The directory of certificates and keys."""
        self.webhooks = self.pki / "webhooks"
        """The directory with the certificate for a server of webhooks."""
        self.tokens = self.pki / "tokens.csv"
        """The admin's bearer token, in the form in which the API server reads it (CSV)."""

    def kubeconfig_of(self, user: str) -> Path:
        """Returns the path of a user's kubeconfig."""
        return self.root / f"{user}.kubeconfig"

    def certificate(self, name: str) -> Path:
        """Returns the path of a certificate (PEM)."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Returns the path of a private key (PEM)."""
        return self.pki / f"{name}.key"

    def log(self, name: str) -> Path:
        """Returns the path of the log of a server or of the supervisor."""
        return self.root / "logs" / f"{name}.log"

    def create(self) -> None:
        """Creates all directories with mode 0700. Raises OSError."""
        for directory in (self.root, self.data, self.run, self.pki, self.log("any").parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
