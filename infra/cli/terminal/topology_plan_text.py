"""The plan of a topology as text: machines first, then one line for each changed object and changed field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape

from infra.operations import differences
from infra.operations.preview import MachineChange, ObjectChange, TopologyPlan
from infra.operations.text import plain

_MARKS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


def lines(plan: TopologyPlan) -> Iterator[str]:
    """Yields the lines of a plan, in rich's markup."""
    changes = [
        text if old == new else f"{old or 'nothing'} -> {new}"
        for text, old, new in (
            (f"class {plan.present_class}", plan.present_class, plan.wanted_class),
            (plan.present_version, plan.present_version, plan.wanted_version),
        )
    ]
    yield f"[bold]Cluster {plan.cluster}[/bold]  {escape(plain(', '.join(changes)))}"
    yield f"  as Cluster API core {plan.core} reconciles it"
    for note in plan.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note, most=1000))}"
    if plan.refusal:
        by = f"refused by {plan.refusal.by}" if plan.refusal.by else "refused"
        yield f"  [bold red]{escape(plain(by))}:[/bold red] {escape(plain(plan.refusal.message, most=2000))}"
    if plan.machines:
        yield ""
        yield "[bold]machines[/bold]"
        for change in plan.machines:
            yield from _machines(change, numbered=plan.steps > 1)
    for title, changed in (("objects", plan.changes), ("pending changes", plan.pending)):
        if changed:
            yield ""
            yield f"[bold]{title}[/bold]"
            yield from _objects(changed)
    yield ""
    yield f"[bold]{plan.summary}[/bold]"


def _machines(change: MachineChange, *, numbered: bool) -> Iterator[str]:
    owner = f"{change.kind} {change.topology or change.name}"
    reasons = f"  ({', '.join(change.reasons)})" if change.reasons else ""
    place = f"{change.step}. " if numbered else ""
    colour = "red" if change.action in ("replace", "remove") else "yellow"
    yield f"  {place}[{colour}]{change.summary}[/{colour}]  {escape(plain(owner + reasons))}"
    if change.remark:
        yield f"      {escape(plain(change.remark))}"


def _objects(changes: Iterable[ObjectChange]) -> Iterator[str]:
    for change in changes:
        mark, colour = _MARKS[change.action]
        former = f"  (instead of {change.replaces})" if change.replaces else ""
        named = escape(plain(f"{change.kind} {change.name}{former}"))
        yield f"  [{colour}]{mark} {change.action:<7}[/{colour}] {named}"
        for field in change.fields:
            yield from ("      " + escape(line) for line in differences.lines(field))
