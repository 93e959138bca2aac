"""Has providers installed, and tells how that goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shared.api import provider as provider_api
from shared.clients import Clients
from shared.kube import Client, Conflict, Object, dig, key_of

from ..output import wait_for
from .report import Report, Written
from .requests import NAMESPACE, Settings, Wanted, default_namespace, namespaces
from .standing import providers, standing
from .versions import brought

Tell = Callable[[str], None]


def carry_out(
    client: Client,
    wanted: Sequence[Wanted],
    settings: Settings,
    report: Report,
    *,
    within: float | None,
    obstacle: str,
) -> None:
    """Waits `within` seconds, unless it is not to, or there is an obstacle. Raises `WaitTimeout`."""
    with report.ending():
        asked = create(client, wanted, settings, report)
        if within is None or obstacle:
            report.obstacle = obstacle
            report.timeline.say(f"asked for{f', not waited for: {obstacle}' if obstacle else ''}")
            return
        wait(client, asked, within=within, tell=report.timeline.say)
        report.ready = True
        report.timeline.say("all are ready", mark="✔", style="green")


def create(client: Client, wanted: Sequence[Wanted], settings: Settings, report: Report) -> list[Wanted]:
    """What is there already is left alone. The result is what there is of it then."""
    present = providers(client)
    core = next((provider for provider in present if provider["kind"] == provider_api.CORE.kind), {})
    of_core = provider_api.spec_version(core) or provider_api.installed_version(core)
    asked: list[Wanted] = []
    missing: list[Wanted] = []
    for one in wanted:
        there = _there(one, present)
        if there is None:
            one = replace(one, version=of_core) if one.implied and not one.version else one
            missing.append(one)
        else:
            key, version = key_of(there), dig(there, "spec.version", "")
            written = Written(one.kind.kind, key, "unchanged", version)
            report.wrote(written, f"{one.kind.kind} {key} is there already: left alone")
            report.note(_passed_over(one, there))
            one = Wanted(one.kind, key.name, key.namespace)
        asked.append(one)
    for namespace in namespaces(missing):
        if _created(client, namespace):
            key = key_of(namespace)
            report.wrote(Written("Namespace", key, "created"), f"Namespace {key.name} created")
    for one in missing:
        client.create(one.kind.resource, one.dump(settings))
        written = Written(one.kind.kind, one.key, "created", one.version)
        report.wrote(written, f"{one} created, of {one.version or 'the newest version'}")
        report.note(_brought(client, one))
    return asked


def _there(one: Wanted, present: Sequence[Object]) -> Object | None:
    """The same provider, wherever it is; for one that is only implied, and for the core one, any of the kind."""
    same = [provider for provider in present if provider["kind"] == one.kind.kind]
    if not (one.implied or one.kind.is_core):
        same = [provider for provider in same if key_of(provider).name == one.name]
    return same[0] if same else None


def _passed_over(one: Wanted, there: Object) -> Iterator[str]:
    """What was asked for of a provider that is there, and is otherwise."""
    key, version = key_of(there), provider_api.spec_version(there)
    what = f"{one.kind.kind} {key}"
    if one.version and not one.implied and one.version != version:
        patch = f'{{"spec":{{"version":"{one.version}"}}}}'
        change = f"kubectl -n {key.namespace} patch {one.kind.kind.lower()} {key.name} --type merge -p '{patch}'"
        yield f"{what} asks for {version or 'the newest version'}, and not for {one.version}: `{change}` changes it"
    if one.namespace not in (key.namespace, default_namespace(one.kind, one.name)):
        yield f"{what} stays in its namespace: there can be one {key.name} only"


def _brought(client: Client, one: Wanted) -> Iterator[str]:
    """What lies in ConfigMaps beside a provider, unless it is what was asked for."""
    found = brought(Clients(client), one.dump())
    if found and one.version not in found:
        hint = f"not of {one.version}" if one.version else "and count once spec.version is one of them"
        yield f"{one}: ConfigMaps in its namespace are of {', '.join(found)}, {hint}"


def _created(client: Client, namespace: Object) -> bool:
    if client.find(NAMESPACE, key_of(namespace)) is not None:
        return False
    try:
        client.create(NAMESPACE, namespace)
    except Conflict as error:
        if not error.already_exists:
            raise
        return False
    return True


def wait(client: Client, wanted: Sequence[Wanted], *, within: float, tell: Tell, pause: float = 0.5) -> None:
    """Until all are ready, with news of each. Raises `WaitTimeout` with what keeps them."""
    heard: dict[Wanted, str] = {}

    def ready() -> bool:
        through = True
        for one in wanted:
            provider = client.find(one.kind.resource, one.key)
            stands = standing(provider) if provider else None
            done = stands is not None and stands.ready == "True"
            news = "is gone" if stands is None else f"{stands.installed} is ready" if done else stands.why
            if heard.get(one) != news:
                tell(f"{one}: {news}")
            heard[one], through = news, through and done
        return through

    def kept() -> str:
        return "; ".join(f"{one}: {news}" for one, news in heard.items() if not news.endswith(" is ready"))

    wait_for("that all providers are ready", ready, within=within, hear=kept, pause=pause)
