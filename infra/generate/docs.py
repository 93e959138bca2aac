"""`docs/triggers.md`: the declarations as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.triggers import Triggers, Watch

from .files import NOTICE

_HEAD = f"""<!-- {NOTICE} -->

# What starts which function

Taken from `functions/*/triggers.py`, like the forwarder's watches and the Knative manifests. An update that touches
nothing of what matters is not forwarded. *By reference* means that the event names the object but does not carry it.

| function | kind or type of event | what matters | changes |
|---|---|---|---|
"""


def text(declared: Mapping[str, Triggers]) -> str:
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows(declared))


def _rows(declared: Mapping[str, Triggers]) -> Iterable[tuple[str, ...]]:
    for name, triggers in declared.items():
        for watch in triggers.watches:
            resource = watch.resource
            kind = f"{resource.kind} ({resource.group})" if resource.group else resource.kind
            yield f"`{name}`", kind, _matters(watch), ", ".join(watch.changes)
        for subscription in triggers.subscriptions:
            yield f"`{name}`", f"`{subscription.type}`", "", ""


def _matters(watch: Watch) -> str:
    parts = [", ".join(f"`{path}`" for path in watch.fields) if watch.fields else "everything"]
    parts += [f"label `{watch.selector}`"] * bool(watch.selector) + ["by reference"] * watch.reference
    return "; ".join(parts)
