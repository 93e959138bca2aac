"""Providers whose managers run as processes of a local run: `up --providers core,kubeadm,docker`.

Their managers are the pinned ones, or `GivenManagers` of `up --manager LABEL=SOURCE --components FOLDER`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.local.local_run import PLANE, LocalRun
from infra.local.managers import (
    SUFFIX as _SUFFIX,
)
from infra.local.managers import (
    GivenManager,
    ManagerError,
    Managers,
    free_ports,
    parse_manager,
    place,
    webhook_host,
)
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import cache_directory
from infra.local_control_plane.modules import MODULES, module_of
from infra.local_control_plane.package import Package
from infra.packaging.build import Added
from infra.packaging.components import rendered
from shared.api import provider as provider_api
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, CORE_NAME, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CONFIG_MAP, NAMESPACE, SECRET
from shared.components import substitute
from shared.components.repositories.config_maps import to_config_map
from shared.kube import Client, Key, Object, key_of
from shared.providers.annotations import WEBHOOKS

from ..failure import Failure
from . import components_folder
from .init import Create, create, retry_failed, wait
from .report import Report
from .requests import ProviderRequest, ProviderSettings, complete, namespace_object, parse_request

WITHIN = 300.0
"""Seconds until all providers must be ready."""
VARIABLES = Key("default", "local-provider-variables")
"""The config Secret of the providers."""
_FIELD_MANAGER = "capi-functions"
_FEATURES = {"CLUSTER_TOPOLOGY": "true", "EXP_RUNTIME_SDK": "true"}
_KINDS: dict[str, tuple[ProviderKind, ...]] = {"core": (CORE,), "kubeadm": (BOOTSTRAP, CONTROL_PLANE)}


@dataclass(frozen=True)
class GivenManagers:
    """Managers and components that a user gives, beside the pinned ones.

    Attributes:
        managers: The managers by the label of their provider.
        components: The folder with components, see `components_folder`.
        packaged_managers: Those of a package; their providers are installed only if they are named.
    """

    managers: Mapping[str, GivenManager] = field(default_factory=dict)
    components: Path | None = None
    packaged_managers: Mapping[str, GivenManager] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, GivenManager]:
        """All managers by the label of their provider."""
        return {**self.packaged_managers, **self.managers}

    def beside(self, package: Package) -> GivenManagers:
        """Returns these, and the unpinned managers and components of a package."""
        found = {}
        for name in package.programs:
            label, version = name.removesuffix(_SUFFIX), package.versions.get(name, "")
            pinned = _pinned_version(label)
            if name.endswith(_SUFFIX) and (version or pinned) != (pinned or "none"):
                found[label] = GivenManager(label, str(package.bin / name), version)
        return replace(self, packaged_managers=found, components=self.components or package.components)

    def packaged(self, say: Callable[[str], None]) -> Added:
        """Returns the programs and components for a package, after building missing ones. Raises `Failure`."""
        folder = cache_directory() / "binaries" / "given"
        try:
            programs = {manager.name: manager.program(folder, say) for manager in self.managers.values()}
        except ManagerError as error:
            raise Failure(str(error)) from error
        versions = {
            manager.name: version
            for manager in self.managers.values()
            if (version := self.version(parse_request(*manager.provider)))
        }
        return Added(programs, versions, self.components)

    def version(self, request: ProviderRequest) -> str:
        """Returns the version of a provider that these know; "" if they do not know it."""
        label = request.kind.label(request.name)
        known = self.known[label].version if label in self.known else ""
        return known or components_folder.version_in(self.text(request))

    def text(self, request: ProviderRequest) -> str:
        """Returns the components of a provider; "" if the folder does not have them. Raises `Failure`."""
        return components_folder.read(self.components, request.kind, request.name)


PINNED = GivenManagers()
"""Nothing is given."""


def given_managers(managers: Sequence[str], components: Path | None) -> GivenManagers:
    """Parses the options --manager. Raises `Failure`."""
    try:
        parsed = [parse_manager(text) for text in managers]
    except ManagerError as error:
        raise Failure(f"--manager {error}") from error
    return GivenManagers({manager.label: manager for manager in parsed}, components)


def parse(text: str, given: GivenManagers = PINNED) -> list[ProviderRequest]:
    """Returns the requests for `core`, `kubeadm` and names of infrastructure providers, separated by commas.

    Providers that they need, and providers whose managers are given, are added. The programs determine the versions.
    Raises `Failure` for a provider without a program.
    """
    requests = [
        parse_request(kind, word.replace("core", CORE_NAME, 1) if kind is CORE else word)
        for word in text.replace(",", " ").split()
        for kind in _KINDS.get(word.partition(":")[0], (INFRASTRUCTURE,))
    ]
    named = {request.kind.label(request.name) for request in requests}
    added = [parse_request(*one.provider) for label, one in given.managers.items() if label not in named]
    return versioned(complete([*requests, *added]), given)


def versioned(requests: Sequence[ProviderRequest], given: GivenManagers = PINNED) -> list[ProviderRequest]:
    """Returns the requests in the versions of the programs. Raises `Failure` for a provider without a program."""
    return [
        replace(request, version=_version(request, given), in_config_map=bool(given.text(request)))
        for request in requests
    ]


def _version(request: ProviderRequest, given: GivenManagers) -> str:
    label = request.kind.label(request.name)
    is_given = label in given.known
    version = (is_given and (request.version or given.version(request))) or _pinned_version(label)
    if not version and is_given:
        raise Failure(
            f"the version of {label} is not known, because no image in its components has a version; give it, as in "
            f"--providers {request.name}:v1.2.3"
        )
    if not version:
        prefix = INFRASTRUCTURE.label("")
        labels = sorted(name.removesuffix(_SUFFIX) for module in MODULES for name in module.packages)
        known = [*_KINDS, *(label.removeprefix(prefix) for label in labels if label.startswith(prefix))]
        raise Failure(
            f"there is no program for {label}; there are: {', '.join(known)}; --manager {label}=... gives another"
        )
    if request.version not in ("", version):
        raise Failure(f"{label} runs in version {version} only, not in {request.version}")
    return version


def _pinned_version(label: str) -> str:
    try:
        return module_of(label + _SUFFIX).version
    except ValueError:
        return ""


def programs(wanted: Sequence[ProviderRequest], given: GivenManagers = PINNED) -> list[str]:
    """Returns the executables of the managers of providers, without the given ones."""
    labels = [request.kind.label(request.name) for request in wanted]
    return [label + _SUFFIX for label in labels if label not in given.known]


def rendered_components(wanted: Sequence[ProviderRequest], given: GivenManagers = PINNED) -> Path | None:
    """Returns the folder with the components of all pinned providers if this machine has rendered them before."""
    pinned = [one for one in wanted if not one.in_config_map and one.kind.label(one.name) not in given.known]
    found = {rendered(request.version) for request in pinned}
    return found.pop() if len(found) == 1 else None


def install(
    run: LocalRun,
    wanted: Sequence[ProviderRequest],
    say: Callable[[str], None],
    given: GivenManagers = PINNED,
) -> None:
    """Creates the providers in a run, and returns once all are ready; those that exist are left unchanged.

    Does nothing if none is wanted. Raises `BinaryNotFound`, `ApiError`, `WaitTimeout` if they are not ready in time, or
    `Failure` once one of them cannot become ready, and if a given manager cannot be used.
    """
    if not wanted or run.client is None:
        return
    labels = {request.kind.label(request.name) for request in wanted}
    for manager in (manager for label, manager in given.known.items() if label in labels):
        try:
            place(run.directory, manager, say)
        except ManagerError as error:
            raise Failure(str(error)) from error
    failed = retry_failed(run.client, wanted)
    managers, host = run.run_managers(), webhook_host(run.plane)
    present = create_with_managers(
        run.client,
        wanted,
        ProviderSettings(),
        Report(),
        folder=run.directory / Managers.FOLDER,
        url=lambda label: f"https://{host}:{managers.free_port(f'{label} webhooks')}",
        say=say,
        given=given,
    )
    wait(run.client, present, within=WITHIN, progress=say, failed=failed)


def create_with_managers(
    client: Client,
    wanted: Sequence[ProviderRequest],
    settings: ProviderSettings,
    report: Report,
    *,
    folder: Path,
    url: Callable[[str], str],
    say: Callable[[str], None],
    given: GivenManagers = PINNED,
) -> list[ProviderRequest]:
    """Creates providers whose managers run as processes; returns what `init.create` returns.

    `url` returns the scheme, host and port of the webhooks of the manager with a label. `folder` is created once the
    programs are there: from then on the run counts as one with managers. Raises `BinaryNotFound` or `ApiError`.
    """
    locate(programs(wanted, given), progress=say)
    refuse_other_versions(client, wanted)
    folder.mkdir(mode=0o700, exist_ok=True)
    if settings.secret is None:
        variables = _variables(given.text(request) for request in wanted)
        if others := variables.keys() - _FEATURES:
            say(f"variables of the environment that components use: {', '.join(sorted(others))}")
        client.apply(SECRET, _secret(variables), manager=_FIELD_MANAGER)
        settings = replace(settings, secret=VARIABLES)
    for request in wanted:
        if request.in_config_map and given.components:
            _create_config_map(client, request, given.components)
    present: list[ProviderRequest] = []
    for request in wanted:
        annotations = {WEBHOOKS: url(request.kind.label(request.name)), **settings.annotations}
        present += create(client, [request], replace(settings, annotations=annotations), report)
    return present


def refuse_other_versions(client: Client, wanted: Sequence[ProviderRequest]) -> None:
    """Raises `Failure` if a provider exists in another version than its manager: CRDs and manager would not fit."""
    for request in wanted:
        for provider in client.list(request.kind.resource):
            found = provider_api.spec_version(provider) or provider_api.installed_version(provider)
            if key_of(provider).name == request.name and found not in ("", request.version):
                what = f"{request.kind.kind} {key_of(provider)} has the version {found}"
                raise Failure(
                    f"{what}, and its manager runs in version {request.version} only: delete the provider with "
                    "`capi-functions provider delete`, or leave its manager out"
                )


def creator(run: Path, settings: Mapping[str, str], say: Callable[[str], None]) -> Create:
    """Lets the run in a folder start managers. Returns the creator of the providers whose managers it runs.

    `settings` has the environment of the run's functions: programs are looked for where the run finds them.
    """
    os.environ.update({name: value for name, value in settings.items() if name == "KUBEBUILDER_ASSETS"})
    host, taken = webhook_host(run / PLANE), set[int]()

    def url(label: str) -> str:
        port = next(port for port in free_ports(f"{run}/{label} webhooks") if port not in taken)
        taken.add(port)
        return f"https://{host}:{port}"

    return functools.partial(create_with_managers, folder=run / Managers.FOLDER, url=url, say=say)


def _create_config_map(client: Client, request: ProviderRequest, folder: Path) -> None:
    """Writes components of a folder into a ConfigMap, in the namespace of their provider."""
    files = components_folder.files(folder, request.kind, request.name, request.version)
    config_map = to_config_map(request.dump(), request.version, files, owned=False)
    client.apply(NAMESPACE, namespace_object(request.namespace), manager=_FIELD_MANAGER)
    client.apply(CONFIG_MAP, config_map, manager=_FIELD_MANAGER)


def _variables(components: Iterable[str]) -> dict[str, str]:
    """Returns the features, and the variables of the environment that components use, as clusterctl does."""
    used = {name for text in components if text for name in substitute.variables(text)}
    return {**_FEATURES, **{name: value for name, value in os.environ.items() if name in used}}


def _secret(variables: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": VARIABLES.name, "namespace": VARIABLES.namespace},
        "stringData": dict(variables),
    }
