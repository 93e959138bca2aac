"""A plan as text: one line for each object that would change, and one for each changed field below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape

from infra.operations import differences
from infra.operations.addons.release_plan import ReleasePlan, StagePlan
from infra.operations.text import plain
from shared.applier.preview import Change
from shared.releases.naming import ReleaseName

_MARKS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "recreate": ("±", "red"),
    "delete": ("-", "red"),
    "keep": ("=", "cyan"),
    "refuse": ("!", "bold red"),
    "unknown": ("?", "bold red"),
}


def lines(plan: ReleasePlan) -> Iterator[str]:
    """Yields the lines of a plan, in rich's markup."""
    yield f"[bold]Cluster {plan.cluster}[/bold]  {escape(plain(_releases(plan.present_class, plan.target_class)))}"
    yield "  " + escape(plain(f"addons {plan.addon_version}, rendered for Kubernetes {plan.kubernetes}"))
    for note in plan.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note))}"
    for stage in plan.stages:
        yield from _stage(stage)
    yield ""
    yield "[bold]" + ", ".join(differences.summary(plan.counts)) + "[/bold]"
    if plan.counts["unknown"]:
        yield "[red]nothing would be applied or deleted[/red] until the kinds marked ? are served"


def _releases(present: str, target: str) -> str:
    """Returns the present and the target release; one name if both are the same release."""
    if ReleaseName.from_class_name(present) == ReleaseName.from_class_name(target):
        return target
    return f"{present or 'nothing'} -> {target}"


def _stage(plan: StagePlan) -> Iterator[str]:
    stage, changes = plan.stage, list(objects(plan.changes))
    if stage.name:
        yield ""
        yield f"[bold]stage {escape(plain(stage.name))}[/bold] ({stage.action})"
        for when, condition in (("before", stage.before), ("after", stage.after)):
            if condition:
                yield "  " + escape(plain(f"waits {when} it until {condition.expression}"))
        if not changes:
            yield "  nothing to do"
    elif changes:
        yield ""
    yield from changes


def objects(changes: Iterable[Change]) -> Iterator[str]:
    """Yields the lines of each changed or conflicting object; none of unchanged ones."""
    for change in changes:
        if change.action in _MARKS or change.conflicts:
            yield from _change(change)


def _change(change: Change) -> Iterator[str]:
    mark, colour = _MARKS.get(change.action, (" ", "default"))
    reason = f"  ({change.reason})" if change.reason else ""
    named = f"{change.entry}  [{change.entry.api_version}]" if change.action == "unknown" else str(change.entry)
    yield f"  [{colour}]{mark} {change.action:<9}[/{colour}] {escape(plain(named + reason, most=1000))}"
    for field in change.fields:
        yield from ("      " + escape(line) for line in differences.lines(field))
    for conflict in change.conflicts:
        yield "      " + escape(plain(f"conflict: {conflict.field} is held by {conflict.manager}"))
