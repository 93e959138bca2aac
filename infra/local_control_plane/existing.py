"""The cluster of the user's kubeconfig in place of a control plane, as envtest uses it."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from infra.local_control_plane.instance import ControlPlaneError, Status
from infra.local_control_plane.variables import EXISTING


def kubeconfig() -> Path:
    """Returns the first file of $KUBECONFIG, else ~/.kube/config."""
    given = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(given).absolute() if given else Path.home() / ".kube" / "config"


def status() -> Status:
    """Returns the address of the API server in the kubeconfig; it is not asked. Raises ControlPlaneError."""
    from shared.kube import connect

    file = kubeconfig()
    if not file.is_file():
        raise ControlPlaneError(f"${EXISTING} is true, but {file} does not exist: $KUBECONFIG names a kubeconfig")
    try:
        url = connect.from_kubeconfig(str(file)).host
    except connect.KubeconfigError as error:
        raise ControlPlaneError(f"${EXISTING} is true, but {file} cannot be used: {error}") from error
    parts = urlsplit(url)
    return Status("ready", url, parts.hostname or "", parts.port or 443)
