"""Formats the documents of `describe` as trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.tree import Tree

from infra.operations.describe.conditions import is_good
from infra.operations.text import plain
from shared.api.conditions import counted
from shared.kube import Object

from .output import unwrapped

_LISTED = 10
"""The number of objects in one state that are shown by name."""
_RELATED = 50
"""The number of objects that belong to an object, and are shown."""
_NAMES = 5
"""The number of Machines of a group that are named."""
_REPLICAS = (("ready", "ready"), ("available", "available"), ("upToDate", "up to date"))
_PHASES = {"done": "green", "Pending": "default"}


def show(console: Console, documents: Sequence[Object]) -> None:
    """Prints the trees; lines are wrapped on a terminal only."""
    unwrapped(console).print(trees(documents), soft_wrap=False)


def trees(documents: Sequence[Object]) -> Group:
    """Returns the trees of documents."""
    return Group(*map(tree, documents))


def tree(document: Object) -> Tree:
    """Returns the tree of a document that `document` or `describe_row` built."""
    return _cluster(document) if "cluster" in document else _any(document)


def _cluster(document: Object) -> Tree:
    cluster = document["cluster"]
    root = Tree(_object(cluster))
    _leaf(root, "phase", cluster.get("phase"))
    if cluster.get("paused"):
        root.add("[yellow]paused[/yellow]: the functions do not change it and its addons")
    _conditions(root, cluster)
    for name, words in (("infrastructure", "infrastructure"), ("controlPlane", "control plane")):
        if document.get(name):
            # Without a reference there may still be Machines of a control plane.
            found = f": {_object(document[name])}" if "kind" in document[name] else ""
            branch = root.add(f"{words}{found}{_replicas(document[name])}")
            _conditions(branch, document[name])
            _machines(branch, document[name])
    for owner in document.get("workers", []):
        branch = root.add(f"workers: {_object(owner)}{_replicas(owner)}" if "name" in owner else "other Machines")
        _conditions(branch, owner)
        _machines(branch, owner)
    _versions(root, document.get("versions", {}))
    _addon(root, document.get("addon", {}))
    _policy(root, document.get("policy", {}))
    _release(root, document.get("release", {}))
    for release in document.get("helmReleases", []):
        words = " ".join(str(release[part]) for part in ("chart", "version", "status") if part in release)
        _summary(root, release, f"  {_plain(words)}")
    for found in document.get("resourceSets", []):
        left = len(found.get("notApplied", []))
        applied = f"{found['sources'] - left} of {found['sources']} sources applied"
        _summary(root, {**found, "ready": str(not left)}, f"  {applied}")
    for problem in document.get("problems", []):
        root.add(f"[yellow]not read[/yellow]: {_plain(problem)}")
    _events(root, document.get("events", []))
    return root


def _any(document: Object) -> Tree:
    root = Tree(_object(document))
    _summary_lines(root, document)
    if document.get("paused"):
        root.add("[yellow]paused[/yellow]: nothing changes until it is resumed")
    for name, text in document.get("columns", {}).items():
        _leaf(root, _words(name), text)
    addon = document.get("addon", {})
    if addon:
        _addon_state(root, {**addon, "conditions": document.get("conditions", [])})
    else:
        _conditions(root, document)
    _inventory(root, document.get("inventory", {}))
    objects = document.get("objects", [])
    for one in objects[:_RELATED]:
        cells = ", ".join(f"{_words(name)} {text}" for name, text in one.get("columns", {}).items())
        _summary(root, one, f"  {_plain(cells)}" if cells else "")
    if len(objects) > _RELATED:
        root.add(f"and {len(objects) - _RELATED} more, of which -o json lists all")
    if document.get("problem"):
        root.add(f"[yellow]not read[/yellow]: {_plain(document['problem'])}")
    _events(root, document.get("events", []))
    return root


def _words(field: str) -> str:
    """Returns the name of a field, such as controlPlane, as words."""
    return "".join(f" {char.lower()}" if char.isupper() else char for char in field)


def _summary(branch: Tree, fields: Mapping[str, Any], detail: str) -> None:
    """Adds an object in one line, with the reason why it is not ready below."""
    _summary_lines(branch.add(f"{_object(fields)}{detail}"), fields, brief=True)


def _summary_lines(branch: Tree, fields: Mapping[str, Any], *, brief: bool = False) -> None:
    ready = str(fields.get("ready", "Unknown"))
    if ready == "True" and not fields.get("reason"):
        if not brief:
            branch.add("[green]ready[/green]")
        return
    detail = ": ".join(str(fields[name]) for name in ("reason", "message") if fields.get(name))
    colour = {"True": "yellow", "False": "red"}.get(ready, "yellow")
    words = f"[{colour}]ready={_plain(ready)}[/{colour}]{_ago(fields)}"
    _remedy(branch.add(words + (f"  {_plain(detail)}" if detail else "")), fields)


def _remedy(branch: Tree, fields: Mapping[str, Any]) -> None:
    _leaf(branch, "means", fields.get("meaning"))
    _leaf(branch, "to do", fields.get("toDo"))


def _replicas(fields: Mapping[str, Any]) -> str:
    found = fields.get("replicas", {})
    counts = [f"{found[name]} {words}" for name, words in _REPLICAS if name in found]
    version = f", {_plain(fields['version'])}" if fields.get("version") else ""
    return f"  {', '.join(counts)} of {found['desired']}{version}" if "desired" in found else ""


def _machines(branch: Tree, fields: Mapping[str, Any]) -> None:
    """Adds a line for each group of Machines, with their names."""
    for group in fields.get("machines", []):
        names = group["names"]
        listed = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
        detail = ", ".join(str(group[name]) for name in ("phase", "version") if group.get(name))
        why = ": ".join(str(group[name]) for name in ("reason", "message") if group.get(name))
        colour = {"True": "green", "False": "red"}.get(group["ready"], "yellow")
        line = f"[bold]{counted(group['count'], 'Machine')}[/bold] [{colour}]Ready={_plain(group['ready'])}[/{colour}]"
        line += f"{_ago(group)}  {_plain(listed)}" + (f" ({_plain(detail)})" if detail else "")
        _remedy(branch.add(line + (f"  {_plain(why)}" if why else "")), group)


def _plain(text: Any, *, most: int = 1000) -> str:
    return escape(plain(text, most=most))


def _leaf(branch: Tree, name: str, value: Any) -> None:
    if value:
        branch.add(f"{name}: {_plain(value)}")


def _ago(fields: Mapping[str, Any]) -> str:
    return f" for {fields['for']}" if fields.get("for") else ""


def _object(fields: Mapping[str, Any]) -> str:
    where = "/".join(fields[part] for part in ("namespace", "name") if fields.get(part))
    named = f"[bold]{_plain(fields.get('kind', 'object'))}[/bold]" + (f" {_plain(where)}" if where else "")
    if fields.get("state"):
        state = {"absent": "does not exist", "failed": "cannot be read"}.get(fields["state"], "")
        why = f": {_plain(fields['error'])}" if fields.get("error") else ""
        return f"{named} [yellow]{state}[/yellow]{why}"
    return named + (_deletion(fields) if fields.get("deleting") else "")


def _deletion(fields: Mapping[str, Any]) -> str:
    """Formats how long an object is being deleted, and the function that the deletion waits for."""
    ago = f" for {fields['deletingFor']}" if fields.get("deletingFor") else ""
    waits = [
        f"finalizer {one['name']}" + (f", which the function {one['function']} removes" if "function" in one else "")
        for one in fields.get("finalizers", [])
    ]
    return f"  [yellow]is being deleted{ago}[/yellow]" + (f"; waits for {_plain('; '.join(waits))}" if waits else "")


def _conditions(branch: Tree, fields: Mapping[str, Any], *, briefly: tuple[str, ...] = ()) -> None:
    """Adds the conditions, without messages for the types in `briefly`, whose messages are shown elsewhere.

    Leaves out conditions that only report an absence, such as of unready replicas, and a remedy that is printed above.
    """
    explained = set()
    for condition in fields.get("conditions", []):
        if is_good(condition) and str(condition.get("reason")).startswith("No") and not condition.get("message"):
            continue
        short = condition.get("type") in briefly
        leaf = branch.add(_condition({**condition, "message": ""} if short else condition))
        if condition.get("toDo") and condition["toDo"] not in explained:
            explained.add(condition["toDo"])
            _remedy(leaf, condition)


def _condition(condition: Mapping[str, Any]) -> str:
    if "type" not in condition:
        ago = f" ({condition['for']} ago)" if condition.get("for") else ""
        return _plain(condition.get("message", "")) + ago
    status = condition.get("status", "Unknown")
    colour = "green" if is_good(condition) else "red" if condition.get("severity") == "Error" else "yellow"
    detail = ": ".join(str(condition[name]) for name in ("reason", "message") if condition.get(name))
    return f"[{colour}]{_plain(condition['type'])}={_plain(status)}[/{colour}]{_ago(condition)}" + (
        f"  {_plain(detail)}" if detail else ""
    )


def _versions(root: Tree, versions: Mapping[str, Any]) -> None:
    if not versions:
        return
    branch = root.add("versions")
    for name, words in (
        ("wanted", "class of the Cluster"),
        ("applied", "class of the applied addons"),
        ("addons", "addons"),
        ("kubernetes", "Kubernetes"),
        ("kubernetesToldToCharts", "Kubernetes version that charts saw"),
    ):
        _leaf(branch, words, versions.get(name))


def _addon(root: Tree, addon: Mapping[str, Any]) -> None:
    if "name" not in addon or addon.get("state"):
        root.add(f"addons: {_object(addon)}" if addon.get("state") else "addons: none")
        return
    branch = root.add(f"addons: {_object(addon)}  " + ("[green]ready[/green]" if addon.get("ready") else "not ready"))
    _addon_state(branch, addon)


def _addon_state(branch: Tree, addon: Mapping[str, Any]) -> None:
    waiting = addon.get("waitingFor", {})
    if waiting:
        why = waiting.get("message") or waiting.get("reason") or waiting.get("type", "")
        branch.add(f"[yellow]waiting{_ago(waiting)}[/yellow]: {_plain(why)}")
    _leaf(branch, "rolled back, or being rolled back, from", addon.get("rollbackFrom"))
    _leaf(branch, "hook", addon.get("hook"))
    _conditions(branch, addon, briefly=("Ready", waiting.get("type", "")))
    _stages(branch, addon)
    _inventory(branch, addon.get("inventory", {}))
    if addon.get("drift"):
        drift = branch.add("drift")
        for line in addon["drift"]:
            drift.add(_plain(line))
    if addon.get("history"):
        past = branch.add("history")
        for entry in addon["history"]:
            ago = f", {entry['for']} ago" if entry.get("for") else ""
            past.add(f"{_plain(entry.get('clusterStack'))} (addons {_plain(entry.get('version'))}){ago}")


def _stages(branch: Tree, addon: Mapping[str, Any]) -> None:
    if not addon.get("stages"):
        return
    stages = branch.add("stages")
    for stage in addon["stages"]:
        phase = stage.get("phase", "Pending")
        colour = _PHASES.get(phase, "yellow")
        ago = _ago(stage) if phase != "done" else ""
        words = f"{stage.get('name')} ({stage.get('action')})"
        stages.add(f"{_plain(words)}: [{colour}]{_plain(phase)}[/{colour}]{ago}")


def _inventory(branch: Tree, inventory: Mapping[str, Any]) -> None:
    if not inventory.get("total"):
        return
    counts = ", ".join(f"{count} {name}" for name, count in inventory["counts"].items() if count)
    objects = branch.add(f"objects: {inventory['total']} in all: {counts}")
    for name, colour in (("failing", "red"), ("waiting", "yellow"), ("kept", "cyan")):
        listed = inventory.get(name, [])
        for entry in listed[:_LISTED]:
            why = f": {_plain(entry['why'])}" if entry.get("why") else ""
            objects.add(f"[{colour}]{name}[/{colour}] {_plain(entry['object'])}{why}")
        if len(listed) > _LISTED:
            objects.add(f"[{colour}]{name}[/{colour}] and {len(listed) - _LISTED} more")


def _release(root: Tree, release: Mapping[str, Any]) -> None:
    if not release:
        return
    if release.get("state") == "absent":
        # This is no problem: Clusters can use releases without a ClusterStack.
        root.add(f"release: {_plain(release.get('name', ''))}, without a {_plain(release['kind'])}")
        return
    branch = root.add(f"release: {_object(release)}")
    _leaf(branch, "Kubernetes", release.get("kubernetesVersion"))
    _conditions(branch, release)


def _policy(root: Tree, policy: Mapping[str, Any]) -> None:
    if not policy:
        return
    branch = root.add("policy")
    for name, annotation in policy.get("annotations", {}).items():
        branch.add(f"{_plain(name)}: {_plain(annotation.get('value', ''))} (on the {_plain(annotation['from'])})")
    if policy.get("problem"):
        branch.add(f"[red]{_plain(policy['problem'])}[/red]")


def _events(root: Tree, events: list[Object]) -> None:
    if not events:
        return
    branch = root.add("events, newest last")
    for event in events:
        ago = f"{event['for']} ago  " if event.get("for") else ""
        colour = "yellow" if event.get("type") == "Warning" else "default"
        times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
        words = f"{event.get('reason', '')}: {event.get('message', '')}"
        branch.add(f"{ago}{_plain(event['object'])}  [{colour}]{_plain(words, most=300)}[/{colour}]{times}")
