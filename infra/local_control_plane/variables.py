"""The environment variables of envtest, except paths of executables (see binaries.py)."""

import os
import re

START = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
STOP = "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"
ATTACH = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT"
EXISTING = "USE_EXISTING_CLUSTER"

_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def start_timeout(default: float) -> float:
    """Returns the seconds until a control plane must be ready. Raises ValueError if the variable is no duration."""
    return _duration(START, default)


def stop_timeout(default: float) -> float:
    """Returns the seconds until a server must have ended. Raises ValueError if the variable is no duration."""
    return _duration(STOP, default)


def attaches_output() -> bool:
    """Returns whether the logs of the servers are also written to the standard error of this process."""
    return _is_true(ATTACH)


def uses_existing_cluster() -> bool:
    """Returns whether the cluster of the user's kubeconfig takes the place of a control plane."""
    return _is_true(EXISTING)


def _is_true(name: str) -> bool:
    return os.environ.get(name, "").lower() == "true"


def _duration(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    if _PARTS.sub("", text):
        raise ValueError(f"${name} is {text!r}, which is not a duration such as 90s or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
