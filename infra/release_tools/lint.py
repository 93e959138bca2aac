"""Checks a release without a cluster: names and versions, stages, templates, rendered objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from shared import bounded_yaml, cel, charts
from shared.addons import chart_objects, first_values
from shared.addons.chart_objects import OVERWRITE, AddonAssets, assets_from_files
from shared.api.conditions import counted
from shared.download import SourceError
from shared.kube import Object, dig
from shared.kube.resources import BUILT_IN_GROUPS, split_api_version
from shared.manifests import Identity, Manifest, identity
from shared.releases.naming import InvalidName
from shared.releases.release import METADATA, STAGES, VALUES_TEMPLATE, InvalidRelease, Release
from shared.releases.stages import HOOKS, Stage, Stages

from .chart_values import own_charts
from .folder import Files, read_release
from .samples import ROOTS, Sample, built_in_samples
from .template_fields import missing_fields

Severity = Literal["error", "warning", "info"]

_LARGE = 1024 * 1024  # bytes: about the limit of etcd, and so of Kubernetes, for one object
_OTHER_FILES = re.compile(r"hashes\.json|node-images\.yaml|SHA256SUMS|topology-[a-z0-9-]+\.yaml")


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding about a file; `line` is 0 if the finding is about the whole file.

    `severity` is `error` (the release fails its check), `warning` (probably a mistake), or `info` (good to know).
    """

    severity: Severity
    file: str
    text: str
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.severity} {place}: {self.text}"


def lint(folder: Path, samples: Sequence[Sample] = ()) -> list[LintFinding]:
    """Returns all findings about the release in `folder`, rendered for the samples, or for a built-in sample."""
    try:
        release, files = read_release(folder)
    except InvalidRelease as error:
        return [LintFinding("error", file, problem) for file, problem in error.problems.items()]
    except (InvalidName, SourceError) as error:
        return [LintFinding("error", str(folder), str(error))]
    samples = samples or built_in_samples(release.name, release.metadata.kubernetes)
    findings = [*_names(release), *_archives(release, files)]
    damaged = {archive for archive in (release.class_chart, release.addon_chart) if not _is_readable(archive, files)}
    if release.class_chart not in damaged:
        findings += _class(release, files)
    if release.addon_chart not in damaged:
        findings += _addons(release, files, samples)
    return list(dict.fromkeys(findings))


# -- names, versions, archives ---------------------------------------------------------------------------------------


def _names(release: Release) -> Iterator[LintFinding]:
    """Yields findings about the names of files, and versions in the metadata."""
    name, metadata = release.name, release.metadata
    if metadata.cluster_stack != name.version:
        yield LintFinding(
            "error", METADATA, f"versions.clusterStack is {metadata.cluster_stack}, the tag {name.version}"
        )
    if not metadata.kubernetes.startswith(f"v{name.kubernetes}."):
        yield LintFinding(
            "error", METADATA, f"versions.kubernetes is {metadata.kubernetes}, the tag's {name.kubernetes}"
        )
    needed = {METADATA, STAGES, VALUES_TEMPLATE, release.class_chart, release.addon_chart}
    for file in sorted(release.files.keys() - needed):
        if not _OTHER_FILES.fullmatch(file) and not file.startswith(f"{name.stack}-node-image-"):
            yield LintFinding("warning", file, "not part of a release")
    if release.multi_stage and release.values_template:
        yield LintFinding("warning", VALUES_TEMPLATE, f"not used: with {STAGES} each chart has its own {OVERWRITE}")


def _archives(release: Release, files: Files) -> Iterator[LintFinding]:
    """Yields findings about the chart archives without rendering them."""
    versions = {release.class_chart: release.name.version}
    if not release.multi_stage:
        versions[release.addon_chart] = release.metadata.cluster_addon
    for archive in (release.class_chart, release.addon_chart):
        try:
            members = charts.inspect(files[archive], archive)
        except charts.ChartError as error:
            yield LintFinding("error", archive, str(error).removeprefix(f"{archive}: "))
            continue
        found = _chart_version(members)
        if archive in versions and found != versions[archive].dotted:
            # The name of the ClusterClass contains the class chart's version; the version of addons is only a label.
            severity: Severity = "error" if archive == release.class_chart else "warning"
            yield LintFinding(severity, archive, f"Chart.yaml has version {found}, must be {versions[archive].dotted}")
        traits = charts.traits(files[archive], archive)
        if traits.looks_up:
            yield _lookup_finding(archive, of_addons=archive == release.addon_chart)
        if traits.needs_cluster_facts:
            yield LintFinding(
                "info", archive, "needs facts of the cluster: rendered by the helm program, for each version again"
            )


def _is_readable(archive: str, files: Files) -> bool:
    try:
        charts.inspect(files[archive], archive)
        charts.traits(files[archive], archive)
    except charts.ChartError:
        return False
    return True


def _lookup_finding(archive: str, *, of_addons: bool) -> LintFinding:
    if of_addons:
        return LintFinding("info", archive, "calls `lookup`: without a cluster, lookups find nothing")
    return LintFinding(
        "warning", archive, "calls `lookup`: class charts have no cluster, so lookups always find nothing"
    )


def _chart_version(members: Mapping[str, bytes]) -> str | None:
    """Returns the version in the outermost Chart.yaml; None without one."""
    path = next((path for path in members if path.count("/") == 1 and path.endswith("/Chart.yaml")), None)
    try:
        document = bounded_yaml.load(members[path]) if path else None
    except bounded_yaml.YAMLError:
        return None
    return str(document.get("version")) if isinstance(document, dict) else None


def _class(release: Release, files: Files) -> Iterator[LintFinding]:
    """Yields findings about the rendered class chart."""
    archive = release.class_chart
    try:
        texts = _render_class(release, files[archive])
        objects = charts.parse(texts, default_namespace="default")
        at_another_time = _rendered_at_another_time(release, files[archive])
    except charts.ChartError as error:
        yield LintFinding("error", archive, str(error).removeprefix(f"{archive}: "))
        return
    if at_another_time is not None and at_another_time != texts:
        yield LintFinding("warning", archive, "its output varies, so it is applied again at each reconciliation")
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterClass"]
    if release.name.class_name not in names:
        found = ", ".join(names) or "none"
        yield LintFinding(
            "error", archive, f"no ClusterClass {release.name.class_name}, which clusters name; found {found}"
        )


def _rendered_at_another_time(release: Release, chart: bytes) -> list[Manifest] | None:
    """Returns the class chart rendered at another time; None if its output does not vary."""
    archive = release.class_chart
    if not charts.traits(chart, archive).varies:
        return None
    chart = charts.with_fixed_time(chart, archive)
    return _render_class(release, chart)


def _render_class(release: Release, chart: bytes) -> list[Manifest]:
    """Returns the manifests of a class chart. Raises `ChartError`."""
    owner, cluster = charts.Release(release.name.stack, "kube-system"), charts.Capabilities(release.metadata.kubernetes)
    return charts.render(chart, {}, owner, name=release.class_chart, capabilities=cluster)


# -- addons ----------------------------------------------------------------------------------------------------------


def _addons(release: Release, files: Files, samples: Sequence[Sample]) -> Iterator[LintFinding]:
    """Yields findings about the addons: stages, templates, rendered objects."""
    assets = assets_from_files(release, files)
    if assets.problem:
        yield LintFinding("error", STAGES, assets.problem.partition(f"{STAGES}: ")[2] or assets.problem)
        return
    if assets.stages:
        yield from _stages(assets.stages)
    members = charts.inspect(files[release.addon_chart], release.addon_chart)
    yield from _missing_keys(_templates(release, files, members), samples)
    yield from _missing_values(assets, members, samples)
    for sample in samples:
        yield from _rendered(assets, sample)


def _stages(stages: Stages) -> Iterator[LintFinding]:
    for field in stages.unknown:
        yield LintFinding("warning", STAGES, f"{field} is unknown and ignored")
    for hook in HOOKS:
        for stage in stages.hooks.get(hook, ()):
            for problem in _conditions(stage):
                yield LintFinding("error", STAGES, f"{hook}, stage {stage.name}: {problem}")


def _conditions(stage: Stage) -> Iterator[str]:
    """Yields the problems of the CEL conditions of a stage."""
    for condition in filter(None, (stage.before, stage.after)):
        keys = {bound.key for bound in condition.objects}
        try:
            used = set(cel.variables(condition.expression))
        except cel.ExpressionError as error:
            yield f"{condition.expression!r}: {error}"
            continue
        if used - keys:
            yield f"{condition.expression!r} uses {', '.join(sorted(used - keys))}, which is not a key under objects"


def _templates(release: Release, files: Files, members: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the values templates by their names for messages."""
    if not release.multi_stage:
        return {VALUES_TEMPLATE: files[VALUES_TEMPLATE].decode(errors="replace")} if release.values_template else {}
    return {
        path: data.decode(errors="replace")
        for path, data in members.items()
        if re.fullmatch(rf"[^/]+/{OVERWRITE}", path)
    }


def _missing_keys(templates: Mapping[str, str], samples: Sequence[Sample]) -> Iterator[LintFinding]:
    """Yields paths that samples lack: a misspelling, or a field that only some clusters have."""
    roots = [{**dict.fromkeys(ROOTS), **sample} for sample in samples]
    for file, text in templates.items():
        nowhere = {(path, line) for path, line, _ in missing_fields(text, roots)}
        for path, line in sorted(nowhere, key=lambda each: each[1]):
            yield LintFinding("warning", file, f"no cluster has {path}; it prints nothing", line)
        for root in roots if len(roots) > 1 else ():
            cluster = dig(root["Cluster"], "metadata.name", "")
            for path, line, optional in missing_fields(text, [root]):
                if not optional and (path, line) not in nowhere:
                    yield LintFinding("info", file, f"cluster {cluster!r} has no {path}; it prints nothing there", line)


def _missing_values(
    assets: AddonAssets, members: Mapping[str, bytes], samples: Sequence[Sample]
) -> Iterator[LintFinding]:
    for chart in own_charts(assets, members):
        values = [{"Values": each} for each in chart.values(samples)]
        places: dict[str, list[tuple[str, int]]] = {}
        for file, text in chart.templates.items():
            for path, line, optional in missing_fields(text, values):
                if not optional:
                    places.setdefault(path, []).append((file, line))
        for path, ((file, line), *others) in places.items():
            more = f", nor in {counted(len(others), 'other place')}" if others else ""
            yield LintFinding("warning", file, f"no values of the chart have {path}; it prints nothing{more}", line)


def _rendered(assets: AddonAssets, sample: Sample) -> Iterator[LintFinding]:
    archive, cluster = assets.release.addon_chart, dig(sample["Cluster"], "metadata.name", "")
    facts = charts.Capabilities(assets.release.metadata.kubernetes)

    def renderer(some: AddonAssets) -> first_values.StageObjects:
        if some.stages is None:
            return [("", chart_objects.umbrella_objects(some, sample, facts))]
        # Charts of stages that delete are rendered as well: rendering finds the objects to delete.
        named = {one.name: one for hook in HOOKS for one in some.stages.hooks.get(hook, ())}
        return [(name, chart_objects.stage_objects(some, one, sample, facts)) for name, one in named.items()]

    try:
        rendered = first_values.render(assets, renderer, first_values.FirstValues())
    except charts.ChartError as error:
        # The message names the file; with stages it is a file inside the archive.
        yield LintFinding("error", archive, f"for cluster {cluster!r}: {str(error).removeprefix(f'{archive}: ')}")
        return
    parts = dict(rendered.stages)
    for field in rendered.fields:
        yield LintFinding(
            "warning", archive, f"{field} varies between renderings; it is kept until the version of the addons changes"
        )
    for hook in HOOKS:
        together = assets.stages.desired(hook) if assets.stages else ()
        yield from _objects_in_two_stages(archive, [(one.name, parts[one.name]) for one in together])
    objects = [obj for part in parts.values() for obj in part]
    yield from _foreign_kinds(archive, objects)
    for obj in objects:
        size = len(yaml.safe_dump(obj))
        if size > _LARGE:
            yield LintFinding("warning", archive, f"{identity(obj)} has {size} bytes; etcd accepts about {_LARGE}")


def _objects_in_two_stages(archive: str, parts: Sequence[tuple[str, list[Object]]]) -> Iterator[LintFinding]:
    """Yields objects that are in two stages; rendering rejects duplicates within one stage."""
    first: dict[Identity, str] = {}
    for stage, objects in parts:
        for found in map(identity, objects):
            if first.setdefault(found, stage) != stage:
                yield LintFinding("error", archive, f"{found} is in stage {first[found]} and in stage {stage}")


def _foreign_kinds(archive: str, objects: Sequence[Object]) -> Iterator[LintFinding]:
    """Yields kinds that are neither built in nor defined by the release."""
    defined = {obj.get("spec", {}).get("group") for obj in objects if obj["kind"] == "CustomResourceDefinition"}
    for obj in objects:
        group, _ = split_api_version(obj["apiVersion"])
        if group not in BUILT_IN_GROUPS and group not in defined:
            yield LintFinding("warning", archive, f"{identity(obj)}: the release does not define {obj['apiVersion']}")
