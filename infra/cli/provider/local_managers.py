"""Providers whose managers run as processes of a local run: `up --providers core,kubeadm,docker`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from infra.local.local_run import PLANE, LocalRun
from infra.local.managers import Managers, free_ports, webhook_host
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.modules import MODULES, module_of
from infra.packaging.components import rendered
from shared.api import provider as provider_api
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, CORE_NAME, INFRASTRUCTURE, ProviderKind
from shared.api.resources import SECRET
from shared.kube import Client, Key, Object, key_of
from shared.providers.annotations import WEBHOOKS

from ..failures import Failure
from .init import Create, create, retry_failed, wait
from .report import Report
from .requests import ProviderRequest, ProviderSettings, complete, parse_request

WITHIN = 300.0
"""Seconds until all providers must be ready."""
VARIABLES = Key("default", "local-provider-variables")
"""The config Secret of the providers."""
_FEATURES = {"CLUSTER_TOPOLOGY": "true", "EXP_RUNTIME_SDK": "true"}
_KINDS: dict[str, tuple[ProviderKind, ...]] = {"core": (CORE,), "kubeadm": (BOOTSTRAP, CONTROL_PLANE)}
_SUFFIX = "-manager"


def parse(text: str) -> list[ProviderRequest]:
    """Returns the requests for `core`, `kubeadm` and names of infrastructure providers, separated by commas.

    What they need is added. Versions are those of the programs. Raises `Failure` for a provider without a program.
    """
    requests = [
        parse_request(kind, CORE_NAME if kind is CORE else word)
        for word in text.replace(",", " ").split()
        for kind in _KINDS.get(word, (INFRASTRUCTURE,))
    ]
    return versioned(complete(requests))


def versioned(requests: Sequence[ProviderRequest]) -> list[ProviderRequest]:
    """Returns the requests in the versions of the programs. Raises `Failure` for a provider without a program."""
    return [replace(request, version=_version(request)) for request in requests]


def _version(request: ProviderRequest) -> str:
    label = request.kind.label(request.name)
    try:
        version = module_of(label + _SUFFIX).version
    except ValueError:
        prefix = INFRASTRUCTURE.label("")
        labels = sorted(name.removesuffix(_SUFFIX) for module in MODULES for name in module.packages)
        known = [*_KINDS, *(label.removeprefix(prefix) for label in labels if label.startswith(prefix))]
        raise Failure(f"there is no program for {label}; there are: {', '.join(known)}") from None
    if request.version not in ("", version):
        raise Failure(f"{label} runs in version {version} only, not in {request.version}")
    return version


def programs(wanted: Sequence[ProviderRequest]) -> list[str]:
    """Returns the executables of the managers of providers."""
    return [request.kind.label(request.name) + _SUFFIX for request in wanted]


def rendered_components(wanted: Sequence[ProviderRequest]) -> Path | None:
    """Returns the folder with the components of all these providers if this machine has rendered them before."""
    found = {rendered(request.version) for request in wanted}
    return found.pop() if len(found) == 1 else None


def install(run: LocalRun, wanted: Sequence[ProviderRequest], say: Callable[[str], None]) -> None:
    """Creates the providers in a run, and returns once all are ready; those that exist are left unchanged.

    Does nothing if none is wanted. Raises `BinaryNotFound`, `ApiError`, `WaitTimeout` if they are not ready in time, or
    `Failure` once one of them cannot become ready.
    """
    if not wanted or run.client is None:
        return
    failed = retry_failed(run.client, wanted)
    managers, host = run.run_managers(), webhook_host(run.plane)
    present = create_with_managers(
        run.client,
        wanted,
        ProviderSettings(),
        Report(as_json=False),
        folder=run.directory / Managers.FOLDER,
        url=lambda label: f"https://{host}:{managers.free_port(f'{label} webhooks')}",
        say=say,
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
) -> list[ProviderRequest]:
    """Creates providers whose managers run as processes; returns what `init.create` returns.

    `url` returns the scheme, host and port of the webhooks of the manager with a label. `folder` is created once the
    programs are there: from then on the run counts as one with managers. Raises `BinaryNotFound` or `ApiError`.
    """
    locate(programs(wanted), progress=say)
    refuse_other_versions(client, wanted)
    folder.mkdir(mode=0o700, exist_ok=True)
    if settings.secret is None:
        client.apply(SECRET, _variables(), manager="capi-functions")
        settings = replace(settings, secret=VARIABLES)
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
    """Lets the run in a folder start managers. Returns what creates providers whose managers it is to run.

    `settings` has the environment of the run's functions: programs are looked for where the run finds them.
    """
    os.environ.update({name: value for name, value in settings.items() if name == "KUBEBUILDER_ASSETS"})
    host, taken = webhook_host(run / PLANE), set[int]()

    def url(label: str) -> str:
        port = next(port for port in free_ports(f"{run}/{label} webhooks") if port not in taken)
        taken.add(port)
        return f"https://{host}:{port}"

    return functools.partial(create_with_managers, folder=run / Managers.FOLDER, url=url, say=say)


def _variables() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": VARIABLES.name, "namespace": VARIABLES.namespace},
        "stringData": _FEATURES,
    }
