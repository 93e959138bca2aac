"""The version of this project. `pyproject.toml` is the one place that sets it."""

from importlib.metadata import version


def current() -> str:
    """Returns the version of the installed package `capi-functions`."""
    return version("capi-functions")
