"""Where an instance keeps what, so that the keeper and its callers agree without talking."""

from dataclasses import dataclass
from pathlib import Path

LOCKED = 75  # exit status of a keeper that finds the lock taken (EX_TEMPFAIL)


@dataclass(frozen=True)
class Layout:
    """The paths below the directory `root` of one instance. `root` must be absolute."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """Locked (flock) by the keeper for as long as it lives."""
        return self.root / "lock"

    @property
    def kubeconfig(self) -> Path:
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        return self.root / f"{user}.kubeconfig"

    @property
    def data(self) -> Path:
        """The data directory of etcd."""
        return self.root / "etcd"

    @property
    def run(self) -> Path:
        """Working directory of the servers: etcd's unix sockets are named relative to it."""
        return self.root / "run"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    def certificate(self, name: str) -> Path:
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.pki / f"{name}.key"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def create(self) -> None:
        """Make all directories, private to the user. Raises OSError."""
        for directory in (self.root, self.data, self.run, self.pki, self.log("any").parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
