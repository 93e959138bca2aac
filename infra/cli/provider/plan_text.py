"""The outlook of a provider for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape

from ..plan_text import objects, summary
from ..text import plain
from .crds import brief
from .marks import only_marked, without
from .plan import Outlook


def lines(outlook: Outlook) -> Iterator[str]:
    """In rich's markup."""
    change = f"{outlook.installed or 'nothing'} -> {outlook.version or '?'}"
    yield f"[bold]{outlook.kind} {outlook.key}[/bold]  {escape(plain(change))}"
    if outlook.source:
        yield "  " + escape(plain(f"from {outlook.source}, contract {outlook.contract}"))
    for note in outlook.notes:
        yield f"  [yellow]note:[/yellow] {escape(plain(note))}"
    if outlook.obstacle:
        yield f"  [bold red]it would not get there:[/bold red] {escape(plain(outlook.obstacle, most=1000))}"
        return
    for told in outlook.dropped:
        yield f"  [yellow]of a CRD:[/yellow] {escape(plain(told))}"
    for told in outlook.widened:
        yield f"  [yellow]new right:[/yellow] {escape(plain(told))}"
    marked = sum(map(only_marked, outlook.changes))
    yield from objects(without(brief(change)) for change in outlook.changes if not only_marked(change))
    if marked:
        told = "only labels and owners by which they are known as ours, and CA certificates"
        yield f"  [yellow]~ marked   [/yellow] {marked} objects: {told}"
    yield "  [bold]" + ", ".join(summary(outlook.counts)) + "[/bold]"
