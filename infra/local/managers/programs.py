"""Programs of managers: pinned ones, ones of another version, and ones that a user gives.

A user gives an executable, a folder with Go sources, or a Go package and its version. A run has them in its folder
`bin`, so that its next start finds them. They take the place of the pinned ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local_control_plane import go_build
from infra.local_control_plane.binaries import BinaryNotFound, locate
from infra.local_control_plane.cache import Progress, partial
from infra.local_control_plane.modules import MANAGERS, module_of
from shared.api.provider import CORE_NAME, KINDS, PROVIDER_LABEL, ProviderKind, provider_of_label
from shared.kube import dig, key_of

from .command import CONTAINER, ManagerError

SUFFIX = "-manager"
"""The suffix of a provider's label in the name of its manager."""
FOLDER = "bin"
_CORE = f"{CORE_NAME}{SUFFIX}"
_WITHOUT_CORE_PACKAGE = ("v1.11.", "v1.12.", "v1.13.")
"""Versions of core whose main package is the root of the module."""


@dataclass(frozen=True)
class GivenManager:
    """A manager that a user gives.

    Attributes:
        label: The label of its provider, such as "infrastructure-aws".
        source: A path, or `PACKAGE@VERSION`.
        version: The version of the provider; "" if only the components or the user know it.
    """

    label: str
    source: str
    version: str = ""

    @property
    def name(self) -> str:
        """The name of the program."""
        return f"{self.label}{SUFFIX}"

    @property
    def provider(self) -> tuple[ProviderKind, str]:
        """The kind and name of the provider. Raises `ManagerError` if the label is of no provider."""
        if found := provider_of_label(self.label):
            return found
        known = ", ".join(f"{kind.prefix}-NAME" for kind in KINDS if not kind.is_core)
        raise ManagerError(f"{self.label!r} is not the label of a provider; the labels are cluster-api and {known}")

    def program(self, folder: Path, progress: Progress) -> Path:
        """Returns the executable, after building it if necessary: sources in a folder are built into `folder`.

        Raises `ManagerError`.
        """
        path = Path(self.source).expanduser().absolute()
        try:
            if self.version and not path.exists():
                return go_build.of_module(self.name, self.source, progress)
            if path.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                go_build.into(folder / self.name, self.name, ".", progress, folder=path)
                return folder / self.name
        except (go_build.BuildFailed, OSError) as error:
            raise ManagerError(f"manager {self.label}={self.source} cannot be built: {error}") from error
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise ManagerError(
                f"manager {self.label}={self.source}: this is neither an executable file nor a folder; give one of "
                "these, or a Go package with a version, such as example.com/provider@v1.2.3"
            )
        return path


def parse(text: str) -> GivenManager:
    """Parses `LABEL=PATH` or `LABEL=PACKAGE@VERSION`. Raises `ManagerError` for another form."""
    label, _, source = text.partition("=")
    if not label or not source:
        raise ManagerError(
            f"{text!r} must be LABEL=PATH or LABEL=PACKAGE@VERSION, such as infrastructure-aws=bin/manager"
        )
    manager = GivenManager(label, source, go_build.version_in(source))
    _ = manager.provider
    return manager


def place(run: Path, manager: GivenManager, progress: Progress) -> None:
    """Builds or finds the program of a manager, and uses it in the run of a folder. Raises `ManagerError`."""
    target = run / FOLDER / manager.name
    program = manager.program(target.parent, progress)
    if program != target:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial(target) as link:
            link.symlink_to(program)
            os.replace(link, target)


def given(run: Path, label: str) -> Path | None:
    """Returns the program that was given to a run for a provider, None without one.

    Raises `ManagerError` if it is gone.
    """
    path = run / FOLDER / f"{label}{SUFFIX}"
    if path.is_symlink() and not path.exists():
        raise ManagerError(
            f"{path.readlink()}, the manager of {label}, does not exist; `up --manager {label}=...` names another"
        )
    return path if path.exists() else None


def pinned(deployment: Mapping[str, Any]) -> Path:
    """Returns the pinned program of the manager in a Deployment. Raises `ManagerError` for another version."""
    name = _name(deployment)
    images = [str(container.get("image")) for container in dig(deployment, "spec.template.spec.containers", [])]
    try:
        version = module_of(name).version
        if not any(image.endswith(f":{version}") for image in images):
            raise ManagerError(f"{name} can be run in version {version}, but the Deployment has {', '.join(images)}")
        return locate([name], progress=lambda _line: None)[name]
    except (ValueError, BinaryNotFound) as error:
        raise ManagerError(f"there is no program for {key_of(deployment)}: {error}") from error


def of_same_version(deployment: Mapping[str, Any], progress: Progress) -> Path:
    """Returns the program of Cluster API's manager in a Deployment, in its version.

    A version that is not pinned is built once from its Go module. Raises `ManagerError`.
    """
    name, version = _name(deployment), image_version(deployment)
    package = next((f"{module}/{path}" for known, module, path in MANAGERS if known == name), "")
    if not package or version == module_of(name).version:
        return pinned(deployment)
    if name == _CORE and version.startswith(_WITHOUT_CORE_PACKAGE):
        package = package.rpartition("/")[0]
    try:
        return go_build.of_module(name, f"{package}@{version}", progress)
    except (go_build.BuildFailed, OSError) as error:
        raise ManagerError(f"{name} {version or 'without version'} cannot be built: {error}") from error


def image_version(deployment: Mapping[str, Any]) -> str:
    """Returns the version of a manager by the tag of its image; empty without a tag."""
    containers = dig(deployment, "spec.template.spec.containers", [])
    image = next((str(one.get("image")) for one in containers if one.get("name") == CONTAINER), "")
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _name(deployment: Mapping[str, Any]) -> str:
    return f"{dig(deployment, ('metadata', 'labels', PROVIDER_LABEL))}{SUFFIX}"
