"""The lines of functions' logs: which of them are about a function or a Cluster, and the logs of pods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from shared.api.resources import CLUSTER, POD
from shared.kube import ApiError, Client, Object, dig, key_of

from .failure import Failure
from .text import plain

SELECTOR = "app.kubernetes.io/part-of=capi-functions"
_SECONDS = 20.0
"""The maximum of the seconds for the log of one container."""


@dataclass
class Filter:
    """Selects the lines about a function and a Cluster; both may be empty, which selects all.

    A line that continues a record, such as a line of a traceback, is selected with the record.

    Attributes:
        function: The name of the function.
        cluster: `NAME` or `NAMESPACE/NAME` of the Cluster.
    """

    function: str = ""
    cluster: str = ""
    _selected: bool = field(default=True, init=False)

    def select(self, line: str) -> bool:
        """Returns whether a line, the next of a log, is selected."""
        if line.startswith("{"):
            self._selected = self._matches(*_of_json(line))
        elif line[:4].isdigit():
            self._selected = self._matches(*_of_text(line))
        return self._selected

    def _matches(self, function: str, cluster: str) -> bool:
        of_cluster = self.cluster in ("", cluster, cluster.rpartition("/")[2])
        return self.function in ("", function) and of_cluster


def _of_json(line: str) -> tuple[str, str]:
    """Returns the function and the Cluster of a line in JSON, empty where it has none."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(fields, dict):
        return "", ""
    name = fields.get("cluster") or (fields.get("name") if fields.get("kind") == CLUSTER.kind else "")
    return str(fields.get("function") or ""), f"{fields.get('namespace')}/{name}" if name else ""


def _of_text(line: str) -> tuple[str, str]:
    """Returns the function and the Cluster of a line of text: `DATE TIME LEVEL FUNCTION KIND KEY ...`."""
    words = line.split()[3:]
    function, kind, key = (*words[:3], "", "", "")[:3]
    about = key.rpartition("/")[2] if kind == CLUSTER.kind else ""
    name = next((word.partition("=")[2] for word in words if word.startswith("cluster=")), about)
    return function, f"{key.rpartition('/')[0]}/{name}" if name else ""


@dataclass(frozen=True)
class LogLimits:
    """The limits of the first read of a container's log: the newest lines, their age in seconds, and the bytes."""

    lines: int = 1000
    age: int | None = None
    bytes: int = 10_000_000


_DEFAULT = LogLimits()


class PodLogs:
    """The logs of the pods of functions, each line once.

    Attributes:
        unread: By pod and container, why a log cannot be read.
    """

    def __init__(self, client: Client, namespace: str = "", limits: LogLimits = _DEFAULT) -> None:
        """`namespace` is the namespace of the pods, empty for all."""
        self._client, self._namespace, self._limits = client, namespace, limits
        self._last: dict[str, str] = {}
        self.unread: dict[str, ApiError] = {}

    def lines(self) -> list[str]:
        """Returns the new lines in the order of time, and a line for each log that cannot be read.

        Raises `Failure` if there are no pods, or `ApiError` if the pods cannot be listed.
        """
        stamped = sorted(self.stamped(), key=itemgetter(0))
        problems = [plain(f"no log of the pod {name}: {error}") for name, error in self.unread.items()]
        return problems + [line for _, line in stamped]

    def stamped(self) -> Iterator[tuple[str, str]]:
        """Yields the time and the text of each new line, log by log.

        Raises `Failure` if there are no pods, or `ApiError` if the pods cannot be listed.
        """
        pods = list(self._client.list(POD, self._namespace, selector=SELECTOR))
        if not pods:
            where = f"in the namespace {self._namespace}" if self._namespace else "in this cluster"
            raise Failure(
                f"there are no pods with the label {SELECTOR} {where}; for the logs of a local run, name its folder "
                "with --dir"
            )
        self.unread.clear()
        for pod in pods:
            for name in _containers(pod):
                yield from self._new(pod, name)

    def _new(self, pod: Object, container: str) -> Iterator[tuple[str, str]]:
        key, limits = key_of(pod), self._limits
        identity = f"{key} {container}"
        last = self._last.get(identity, "")
        query = {"container": container, "timestamps": "true", "limitBytes": str(limits.bytes)}
        query |= {"sinceTime": last} if last else {"tailLines": str(limits.lines)}
        query |= {"sinceSeconds": str(limits.age)} if limits.age and not last else {}
        try:
            path = f"{POD.path(key.namespace, key.name)}/log"
            text = self._client.text(path, timeout=_SECONDS, query=query)
        except ApiError as error:
            if not last:
                self.unread[identity] = error
            return
        for line in text.splitlines():
            stamp, _, rest = line.partition(" ")
            if stamp > last:
                self._last[identity] = max(stamp, self._last.get(identity, ""))
                yield stamp, rest


def _containers(pod: Object) -> Iterable[str]:
    return [str(container.get("name")) for container in dig(pod, "spec.containers", [])]
