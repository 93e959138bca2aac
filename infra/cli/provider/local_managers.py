"""Providers whose managers run as processes of a local run: `up --providers core,kubeadm,docker`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from infra.local.local_run import LocalRun
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.modules import MODULES, module_of
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, CORE_NAME, INFRASTRUCTURE, ProviderKind
from shared.api.resources import SECRET
from shared.kube import Key, Object
from shared.providers.annotations import WEBHOOKS

from ..failures import Failure
from .init import create, wait
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
    return [replace(request, version=_version(request)) for request in complete(requests)]


def _version(request: ProviderRequest) -> str:
    label = request.kind.label(request.name)
    try:
        version = module_of(label + _SUFFIX).version
    except ValueError:
        prefix = INFRASTRUCTURE.label("")
        programs = sorted(name.removesuffix(_SUFFIX) for module in MODULES for name in module.packages)
        known = [*_KINDS, *(name.removeprefix(prefix) for name in programs if name.startswith(prefix))]
        raise Failure(f"--providers: there is no program for {label}; there are: {', '.join(known)}") from None
    if request.version not in ("", version):
        raise Failure(f"--providers: {label} runs in version {version} only, not in {request.version}")
    return version


def install(run: LocalRun, wanted: Sequence[ProviderRequest], say: Callable[[str], None]) -> None:
    """Creates the providers in a run, and returns once all are ready; those that exist are left unchanged.

    Does nothing if none is wanted. Raises `BinaryNotFound`, `ApiError`, or `WaitTimeout` if they are not ready in time.
    """
    if not wanted or run.client is None:
        return
    locate([request.kind.label(request.name) + _SUFFIX for request in wanted], progress=say)
    client, managers = run.client, run.run_managers()
    client.apply(SECRET, _variables(), manager="capi-functions")
    report = Report(as_json=False)
    present: list[ProviderRequest] = []
    for request in wanted:
        port = managers.free_port(f"{request.kind.label(request.name)} webhooks")
        settings = ProviderSettings(VARIABLES, {WEBHOOKS: f"https://localhost:{port}"})
        present += create(client, [request], settings, report)
    wait(client, present, within=WITHIN, progress=say)


def _variables() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": VARIABLES.name, "namespace": VARIABLES.namespace},
        "stringData": _FEATURES,
    }
