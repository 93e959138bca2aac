"""Finds the next step of a release from its record in the cluster, the status, and the wanted chart and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared import charts
from shared.addons.resolve import live_capabilities
from shared.applier import inventory
from shared.applier.cascade import KEEP
from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.desired import desired, kinds_defined_by
from shared.applier.inventory import SYNCED, InventoryEntry, content_hash, entry_of
from shared.applier.policy import Policy
from shared.applier.sync import Sync, plan_sync
from shared.charts import Capabilities, Release
from shared.charts.lookup import secret_values
from shared.helm_charts.store import StoredChart
from shared.helm_proxies.release_record import (
    DEPLOYED,
    FAILED,
    PENDING_ROLLBACK,
    History,
    ReleaseRecord,
    chart_of,
    new_record,
    same_values,
)
from shared.kube import Object, dig
from shared.manifests import RELEASE_HOOKS, Operation, hooks_of

from .findings import Adoption, GivenUp, Removal, Work
from .options import Options
from .ownership import policy
from .values import Values, merge, recorded_texts


@dataclass(frozen=True)
class Look:
    """A release in its cluster, and what the HelmReleaseProxy wants of it.

    `digest` identifies chart and values, `attempt` chart, values and options. A step adds to `confidential` the texts
    that no status and no message may contain.
    """

    proxy: Object
    connection: ClusterConnection
    release: Release
    history: History
    chart: StoredChart
    values: Values
    options: Options
    rules: Policy
    digest: str
    attempt: str
    confidential: set[str] = field(repr=False)

    @property
    def archive(self) -> str:
        """The name of the chart's archive, for messages."""
        return f"{self.chart.name}-{self.chart.version}.tgz"

    @property
    def gave_up(self) -> bool:
        """Whether an operation with this chart, these values and options has failed and was undone."""
        return self.options.atomic and dig(self.proxy, "status.failedAttempt") == self.attempt

    def sync(
        self,
        objects: Sequence[Object],
        entries: Sequence[InventoryEntry],
        operation: Operation,
        *,
        resumed: bool = False,
        crds: Sequence[Object] = (),
    ) -> Sync:
        """Plans the sync of the objects; `crds` define kinds that the cluster does not serve yet."""
        return plan_sync(
            ClusterConnection(self.connection.cluster, {**self.connection.served, **kinds_defined_by(crds)}),
            objects,
            entries,
            self.rules,
            default_namespace=self.release.namespace,
            operation=operation,
            resumed=resumed,
        )


def next_step(look: Look) -> Adoption | GivenUp | Work | Removal | ConnectionFailed:
    """Returns the next step of a release. A revision is rendered once; afterwards its record has the objects.

    Raises `ChartError`, `RecordError`, `UnknownKinds` or `ApiError`.
    """
    latest, entries = look.history.latest, inventory.load(dig(look.proxy, "status.resources"))
    look.confidential.update(recorded_texts(latest.config if latest else {}, look.values))
    if latest is not None and is_recorded(look.proxy, latest):
        if look.gave_up or dig(look.proxy, "status.digest") == look.digest:
            return _continuation(look, latest, entries)
    elif look.gave_up:
        return GivenUp(look.chart)
    if latest is not None and (not entries or latest.revision != dig(look.proxy, "status.revision")):
        entries = adopted(latest, look.history, look.connection, look.release, look.options)
        if _is_as_wanted(look, latest):
            return Adoption(look.chart, look.digest, latest, entries)
    return _new_revision(look, entries)


def _continuation(look: Look, latest: ReleaseRecord, entries: Sequence[InventoryEntry]) -> Work | Removal:
    """Returns the step that goes on with the newest revision: check it, complete it, or undo its failure."""
    operation = _operation(look.proxy, latest, look.history)
    if look.options.atomic and latest.status == FAILED:
        if operation == "install":
            failed = History(look.history.revisions[-1:], latest)
            options = replace(look.options, keep_history=False)
            return Removal(look.connection, look.release, failed, entries, (), options, look.attempt)
        former = look.history.deployed
        if former is not None and former.digest == dig(look.proxy, "status.formerRecordDigest"):
            return _rollback(look, former, entries)
    objects = objects_of(latest, look.options)
    if charts.traits(look.chart.archive, look.archive).looks_up:
        look.confidential.update(text for obj in objects for text in secret_values(obj))
    rollout = look.sync(objects, entries, operation, resumed=operation != "check")
    return Work(look.chart, look.digest, look.history, latest, rollout, look.options, operation, look.attempt)


def _rollback(look: Look, former: ReleaseRecord, entries: Sequence[InventoryEntry]) -> Work:
    objects = objects_of(former, look.options)
    look.confidential.update(recorded_texts(former.config, look.values))
    look.confidential.update(text for obj in objects for text in secret_values(obj))
    rollout = look.sync(objects, entries, "rollback")
    record = former.rollback(look.history.next_revision)
    return Work(look.chart, look.digest, look.history, record, rollout, look.options, "rollback", look.attempt)


def _is_as_wanted(look: Look, latest: ReleaseRecord) -> bool:
    """Returns whether a release that another installer may have made has the wanted chart and values.

    If the status names a record, only this record counts, because whoever may write Secrets in the cluster can write a
    record.
    """
    trusted = dig(look.proxy, "status.recordDigest") in (None, latest.digest)
    same = latest.chart_version == look.chart.version and dig(latest.chart, "metadata.name") == look.chart.name
    return trusted and latest.status == DEPLOYED and same and same_values(latest.config, look.values.values)


def _new_revision(look: Look, entries: Sequence[InventoryEntry]) -> Work | ConnectionFailed:
    """Renders the chart, and returns the work on the next revision."""
    history, options = look.history, look.options
    config = look.values.values
    if history.latest and options.reuse_values:
        config = merge(history.latest.config, config)
    needs_facts = charts.traits(look.chart.archive, look.archive).needs_cluster_facts
    facts = live_capabilities(look.connection) if needs_facts else Capabilities()
    if isinstance(facts, ConnectionFailed):
        return facts
    rendered = charts.render_release(
        look.chart.archive,
        config,
        Release(look.release.name, look.release.namespace, history.next_revision, history.is_installed),
        chart_name=look.archive,
        capabilities=facts,
    )
    if facts.live is not None:
        look.confidential.update(facts.live.secrets)
    operation: Operation = "upgrade" if history.is_installed else "install"
    crds = [] if options.skip_crds else rendered.crds
    if options.include_crds:
        rendered = replace(rendered, objects=[*map(_kept, crds), *rendered.objects])
    crds = [] if options.include_crds or operation == "upgrade" else crds
    record = new_record(
        look.release.name,
        look.release.namespace,
        history,
        chart=chart_of(look.chart.archive, look.archive),
        config=config,
        rendered=rendered,
    )
    objects = [*rendered.objects, *([] if options.disable_hooks else rendered.hooks)]
    rollout = look.sync(objects, entries, operation, crds=crds)
    former_digest = _former_digest(look.proxy, history)
    return Work(
        look.chart, look.digest, history, record, rollout, options, operation, look.attempt, former_digest, crds
    )


def is_recorded(proxy: Object, record: ReleaseRecord) -> bool:
    """Returns whether the status names this record."""
    named = (dig(proxy, "status.revision"), dig(proxy, "status.recordDigest"))
    return named == (record.revision, record.digest)


def _operation(proxy: Object, latest: ReleaseRecord, history: History) -> Operation:
    """Returns the operation that continues with the newest record."""
    # A rollback whose record is deployed already still lacks its status.
    if PENDING_ROLLBACK in (latest.status, dig(proxy, "status.status")):
        return "rollback"
    return "check" if latest.status == DEPLOYED else history.operation_of(latest.revision)


def _former_digest(proxy: Object, history: History) -> str:
    """Returns the digest of the deployed record if the functions have stored it or taken it over, else ""."""
    former = history.deployed
    if former is None:
        return ""
    if former is history.latest:
        trusted = dig(proxy, "status.recordDigest") in (None, former.digest)
    else:
        trusted = dig(proxy, "status.formerRecordDigest") == former.digest
    return former.digest if trusted else ""


def _kept(crd: Object) -> Object:
    """Returns a CRD of the release with the annotation that keeps it from every deletion."""
    annotations = {**dig(crd, "metadata.annotations", {}), KEEP: "keep"}
    return {**crd, "metadata": {**crd["metadata"], "annotations": annotations}}


def objects_of(record: ReleaseRecord, options: Options) -> list[Object]:
    """Returns the objects and hooks of a record."""
    name = f"the record of release {record.name}"
    objects = charts.parse(record.manifests, default_namespace=record.namespace, name=name, hooks=RELEASE_HOOKS)
    return [obj for obj in objects if not (options.disable_hooks and hooks_of(obj))]


def adopted(
    latest: ReleaseRecord, history: History, connection: ClusterConnection, release: Release, options: Options
) -> list[InventoryEntry]:
    """Returns the inventory of a release that another installer has made: the objects of its records."""
    rules, known = policy(release, options), connection.served
    found: dict[object, InventoryEntry] = {}
    for record in filter(None, (history.deployed, latest)):
        plain = [obj for obj in objects_of(record, options) if not hooks_of(obj)]
        kinds = {**known, **kinds_defined_by(plain)}
        objects = [obj for obj in plain if (obj["apiVersion"], obj["kind"]) in kinds]
        for obj in desired(objects, known, rules.owner, default_namespace=release.namespace):
            entry = entry_of(obj)
            if record.status == DEPLOYED:
                entry = InventoryEntry(**{**vars(entry), "hash": content_hash(obj), "status": SYNCED})
            found[entry.identity] = entry
    return list(found.values())
