"""The command `sources`: the ApiServerSources for the kinds that a management cluster serves now.

The generated ones name the kinds that functions name. Which kinds of infrastructure and control-plane objects there are
is known in a cluster only; and an adapter ends if the group of a kind is not served, so that no function gets events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.doctor import CheckResult
from infra.operations.failure import Failure
from infra.operations.forwarders import forwarders, obstacle
from shared.api.resources import API_SERVER_SOURCE
from shared.kube import ApiError, Client, Key, Object, dig
from shared.triggers import Triggers, Watch

from ..options import Profile, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out

if TYPE_CHECKING:
    from shared.kube.discovery import Discovery

app = App()

_NONE = "the namespace capi-functions has no ApiServerSources"
_EVENT_SOURCES = "event sources"
MISSING = 3
"""The exit code if the installed sources differ, as for a plan that would change something."""


@app.command(examples=["sources | kubectl apply -f -", "sources --check"])
def sources(
    *,
    profile: Profile = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Print how the installed sources differ instead; exit code 3 if they do."),
    ] = False,
    management: TargetOptions,
) -> None:
    """Print Knative's event sources with all kinds that start functions and that the cluster serves.

    Apply the output with kubectl to watch the infrastructure and control-plane objects of the installed providers.
    Without --profile, the installation determines the profiles.
    """
    from infra.generate import sources as generator
    from infra.operations.manifests import dump

    with report_failures(), management.open() as target:
        watches = _watches(target.client, profile)
        generated = generator.of(watches)
        if not check:
            typer.echo(dump([generator.role(watches), *generated]), nl=False)
            return
        if not (installed := _installed(target.client)):
            raise Failure(f"{_NONE}; infra/manifests/sources installs them, the forwarder needs none")
        found = differences(generated, installed)
    for line in found:
        out.print(line)
    raise typer.Exit(MISSING if found else 0)


def examine(client: Client) -> CheckResult:
    """Checks that one source sends changes, and that ApiServerSources are complete; for `doctor`.

    Raises `ApiError` unless the user lacks a right to read, which is the result then.
    """
    try:
        return _examine(client)
    except ApiError as error:
        if error.status != 403:
            raise
        return CheckResult(_EVENT_SOURCES, "note", f"not checked: {error}")


def _examine(client: Client) -> CheckResult:
    from infra.generate import sources as generator
    from shared.api.resources import DEPLOYMENT
    from shared.settings import NAMESPACE

    name = _EVENT_SOURCES
    deployments = list(client.list(DEPLOYMENT, NAMESPACE))
    forwarding = forwarders(deployments)
    installed = _installed(client)
    if forwarding and installed:
        names = ", ".join(source["metadata"]["name"] for source in installed)
        both = f"the forwarder and the ApiServerSources {names} both send each change"
        return CheckResult(name, "note", f"{both}: delete one of them, see docs/installation.md")
    if forwarding:
        problem = obstacle(forwarding)
        return CheckResult(name, "note" if problem else "ok", problem or "the forwarder")
    if not installed and not deployments:
        how = "docs/installation.md installs them, `capi-functions run` runs them here"
        return CheckResult(name, "note", f"no functions run in the namespace {NAMESPACE}: {how}")
    if not installed:
        return CheckResult(name, "note", f"{_NONE}, and no forwarder: only the sweep starts functions")
    if found := differences(generator.of(_watches(client)), installed):
        return CheckResult(name, "note", f"{'; '.join(found)}: apply the output of `capi-functions sources`")
    return CheckResult(name, "ok", "all kinds that start functions and that the cluster serves")


def _watches(client: Client, profile: str = "") -> list[Watch]:
    """Returns the watches in the cluster of the profiles' functions, by default of the installation's profiles."""
    from functions import catalog
    from infra.generate import knative
    from shared import profiles
    from shared.kube.discovery import Discovery

    chosen = profiles.parse(profile or _installed_profiles(client))
    declared = knative.in_a_cluster(catalog.triggers(profiles=chosen))
    return list(served_watches(declared, Discovery(client), _definitions(client, declared)))


def served_watches(
    declared: Mapping[str, Triggers], discovery: Discovery, definitions: Iterable[Object]
) -> Iterator[Watch]:
    """Yields the watches of these functions of kinds that the cluster serves, in a version that it serves.

    `definitions` are the CRDs of kinds that functions do not name.
    """
    definitions = list(definitions)
    for triggers in declared.values():
        for watch in triggers.watches:
            served = discovery.in_any_version(watch.resource.api_version, watch.resource.kind)
            if served is None:
                err.print(f"note: {watch.resource.kind} ({watch.resource.group}) is not served and left out")
            else:
                yield replace(watch, resource=served)
        if kinds := triggers.defined_kinds:
            defined = filter(None, map(kinds.defined, definitions))
            yield from (kinds.watch(resource) for resource in defined if not triggers.names(resource))


def differences(generated: Iterable[Object], installed: Iterable[Object]) -> list[str]:
    """Returns a line for each kind that the installed sources lack, have in another version, or have too much."""
    before, after = _kinds(installed), _kinds(generated)
    found = []
    for source, kind in sorted(before.keys() | after.keys()):
        is_, should_be = before.get((source, kind)), after.get((source, kind))
        if is_ != should_be:
            change = "is missing" if is_ is None else "is not served" if should_be is None else f"is {is_}"
            found.append(f"{source}: {kind} {change}{f', should be {should_be}' if should_be else ''}")
    return found


def _kinds(sources: Iterable[Object]) -> dict[tuple[str, str], str]:
    """Returns the version of each kind in each source."""
    found = {}
    for source in sources:
        for each in dig(source, "spec.resources", []):
            group, _, version = each["apiVersion"].rpartition("/")
            found[source["metadata"]["name"], f"{each['kind']}.{group}".rstrip(".")] = version
    return found


def _definitions(client: Client, declared: Mapping[str, Triggers]) -> Iterator[Object]:
    """Yields the CRDs of kinds that functions do not name."""
    from shared.kube.client import METADATA_LIST
    from shared.kube.crds import CRD

    patterns = [each.defined_kinds for each in declared.values() if each.defined_kinds is not None]
    for page in client.pages(CRD, accept=METADATA_LIST) if patterns else ():
        for obj in page["items"]:
            name = obj["metadata"]["name"]
            if any(pattern.may_define(name) for pattern in patterns):
                yield client.get(CRD, Key("", name))


def _installed_profiles(client: Client) -> str:
    from shared.api.resources import CONFIG_MAP
    from shared.settings import INSTALLATION, NAMESPACE

    found = client.find(CONFIG_MAP, Key(NAMESPACE, INSTALLATION.name))
    return str(dig(found, "data.CAPI_FUNCTIONS_PROFILES", ""))


def _installed(client: Client) -> list[Object]:
    from infra.generate import sources as generator
    from shared.kube import NotServed
    from shared.settings import NAMESPACE

    try:
        found = [client.find(API_SERVER_SOURCE, Key(NAMESPACE, name)) for name in generator.MODES.values()]
    except NotServed:
        return []
    return [source for source in found if source is not None]
