"""The text output of `provider plan`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape

from infra.operations import differences
from infra.operations.providers.crd_changes import without_descriptions
from infra.operations.providers.ownership_marks import is_only_marked, without_marks
from infra.operations.providers.plan import ProviderPlan
from infra.operations.providers.stored_objects import StoredKind
from infra.operations.text import plain
from shared.api.conditions import counted

from .plan_text import objects

_MOST_OBJECTS = 20


def lines(plan: ProviderPlan) -> Iterator[str]:
    """Yields the lines of the output, in rich's markup."""
    change = f"{plan.installed or 'nothing'} -> {plan.version or '?'}"
    yield f"[bold]{plan.kind} {plan.key}[/bold]  {escape(plain(change))}"
    if plan.source:
        yield "  " + escape(plain(f"from {plan.source}, contract {plan.contract}"))
    for note in plan.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note))}"
    if plan.obstacle:
        yield f"  [bold red]cannot be installed:[/bold red] {escape(plain(plan.obstacle, most=1000))}"
        return
    for text in plan.dropped:
        yield f"  [yellow]CRD change:[/yellow] {escape(plain(text))}"
    for kind in plan.stored:
        yield from _stored(kind)
    for text in plan.widened:
        yield f"  [yellow]new right:[/yellow] {escape(plain(text))}"
    marked = sum(map(is_only_marked, plan.changes))
    yield from objects(
        without_marks(without_descriptions(change)) for change in plan.changes if not is_only_marked(change)
    )
    if marked:
        fields = "only labels, owner references and CA certificates change"
        yield f"  [yellow]~ marked   [/yellow] {counted(marked, 'object')}: {fields}"
    yield "  [bold]" + ", ".join(differences.summary(plan.counts)) + "[/bold]"


def _stored(kind: StoredKind) -> Iterator[str]:
    if kind.remark:
        yield f"  [yellow]stored objects:[/yellow] {escape(plain(f'{kind.crd}: {kind.remark}'))}"
    if kind.checked:
        colour, found = ("red", f"{kind.invalid} invalid") if kind.invalid else ("green", "all valid")
        text = f"{kind.crd}: {counted(kind.checked, 'object')} checked as {kind.version}, {found}"
        yield f"  [{colour}]stored objects:[/{colour}] {escape(plain(text))}"
    for one in kind.found[:_MOST_OBJECTS]:
        text = one.problem or f"loses {', '.join(one.lost)}"
        yield f"      {escape(plain(f'{one.namespace}/{one.name}: {text}', most=1000))}"
    if len(kind.found) > _MOST_OBJECTS:
        yield f"      and {len(kind.found) - _MOST_OBJECTS} more"
