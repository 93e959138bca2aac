"""The plan of a topology as text: machines first, then one line for each changed object and field, then addons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape

from infra.operations import differences
from infra.operations.preview import ClassPlan, MachineChange, ObjectChange, Refusal, TopologyPlan
from infra.operations.text import plain
from shared.api.conditions import counted

from . import plan_text

_MARKS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


_MOST_NAMES = 20


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
        yield f"  {_refusal(plan.refusal)}"
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
    if plan.addons:
        yield ""
        yield from plan_text.lines(plan.addons)


def class_lines(plan: ClassPlan) -> Iterator[str]:
    """Yields the lines of a plan of a class, in rich's markup."""
    yield f"[bold]ClusterClass {plan.cluster_class}[/bold]  {counted(len(plan.plans), 'Cluster')}"
    yield f"  as Cluster API core {plan.core} reconciles the change"
    for note in plan.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note, most=1000))}"
    for group in plan.groups:
        names = ", ".join(map(str, group.clusters[:_MOST_NAMES]))
        more = len(group.clusters) - _MOST_NAMES
        yield ""
        yield f"[bold]{counted(len(group.clusters), 'Cluster')}:[/bold] {group.example.summary}"
        yield f"  {escape(plain(names, most=5000))}" + (f" and {more} more" if more > 0 else "")
        if group.example.refusal:
            yield f"  {_refusal(group.example.refusal)}"
        for change in group.example.machines:
            yield from _machines(change, numbered=group.example.steps > 1, named=bool(change.topology))
        for note in group.notes:
            yield f"  [yellow]note:[/yellow] {escape(plain(note, most=1000))}"
    yield ""
    yield f"[bold]{plan.summary}[/bold]"


def _refusal(refusal: Refusal) -> str:
    by = f"refused by {refusal.by}" if refusal.by else "refused"
    return f"[bold red]{escape(plain(by))}:[/bold red] {escape(plain(refusal.message, most=2000))}"


def _machines(change: MachineChange, *, numbered: bool, named: bool = True) -> Iterator[str]:
    owner = f"{change.kind} {change.topology or change.name}" if named else change.kind
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
