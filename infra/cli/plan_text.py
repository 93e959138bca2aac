"""A plan for people: one line for an object that would change, and one for each field below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape

from shared.applier.preview import Change
from shared.releases.naming import ReleaseName

from . import differences
from .release_plan import ReleasePlan, StagePlan
from .text import plain

_MARKS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "recreate": ("±", "red"),
    "delete": ("-", "red"),
    "keep": ("=", "cyan"),
    "refuse": ("!", "bold red"),
    "unknown": ("?", "bold red"),
}
_WORDS = {
    "create": "to create",
    "update": "to update",
    "recreate": "to make anew",
    "delete": "to delete",
    "keep": "kept",
    "refuse": "refused",
    "unknown": "of unknown kinds",
    "unchanged": "unchanged",
    "conflicts": "with conflicts",
}


def lines(plan: ReleasePlan) -> Iterator[str]:
    """In rich's markup."""
    yield f"[bold]Cluster {plan.cluster}[/bold]  {escape(plain(_releases(plan.present, plan.wanted)))}"
    yield "  " + escape(plain(f"addons {plan.addon_version}, rendered for Kubernetes {plan.kubernetes}"))
    for note in plan.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note))}"
    for part in plan.stages:
        yield from _part(part)
    yield ""
    yield "[bold]" + ", ".join(summary(plan.counts)) + "[/bold]"
    if plan.counts["unknown"]:
        yield "[red]nothing of this would begin[/red], not even deletions, before the kinds marked ? are known"


def _releases(present: str, wanted: str) -> str:
    """From which to which; only one where both are the same, however either is spelled."""
    if ReleaseName.from_class_name(present) == ReleaseName.from_class_name(wanted):
        return wanted
    return f"{present or 'nothing'} -> {wanted}"


def summary(counts: dict[str, int]) -> Iterable[str]:
    told = [f"{counts[action]} {words}" for action, words in _WORDS.items() if counts[action]]
    return told or ["no objects at all"]


def _part(part: StagePlan) -> Iterator[str]:
    stage, told = part.stage, list(objects(part.changes))
    if stage.name:
        yield ""
        yield f"[bold]stage {escape(plain(stage.name))}[/bold] ({stage.action})"
        for when, condition in (("before", stage.before), ("after", stage.after)):
            if condition:
                yield "  " + escape(plain(f"waits {when} it until {condition.expression}"))
        if not told:
            yield "  nothing to do"
    elif told:
        yield ""
    yield from told


def objects(changes: Iterable[Change]) -> Iterator[str]:
    """What there is to say of each; nothing of one that stays as it is."""
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
    for held in change.conflicts:
        yield "      " + escape(plain(f"conflict: {held.field} is held by {held.manager}"))
