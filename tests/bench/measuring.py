"""Measures a step of the functions and the forwarder: time, requests, CPU, memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .auditing import Plane, Requests, Tally, by_verb
from .parts import since
from .processes import Running
from .table import NONE, Row, Table

_MOST = 25


@dataclass
class Meter:
    """Measures steps, and prints what each cost.

    Attributes:
        planes: The control planes by name: `management`, and `workload` if there is one.
        processes: The functions and the forwarder.
        table: Gets a row for each step.
        each: The number of objects that a step is about: their requests are printed for one of them.
    """

    planes: Mapping[str, Plane]
    processes: Running
    table: Table
    each: int = 1

    def measure(
        self,
        title: str,
        act: Callable[[], object],
        budget: Row = NONE,
        *,
        reached: Callable[[], None] | None = None,
    ) -> Row:
        """Prints and returns what `act` cost.

        The time is that until `reached`, or else until nothing was left to do; all else includes what came after.
        """
        before = {name: plane.tally() for name, plane in self.planes.items()}
        servers, cpu = self._servers(), self.processes.cpu()
        with self.processes.peak_memory() as memory:
            started = time.perf_counter()
            act()
            if reached:
                reached()
            seconds = since(started)
            quiet = self.processes.wait_quiet()
        if not reached:
            seconds = max(quiet - started, 0.0)
        served = {name: now - servers[name] for name, now in self._servers().items()}
        used = {name: now - cpu.get(name, 0.0) for name, now in self.processes.cpu().items()}
        spent = {name: plane.tally() - before[name] for name, plane in self.planes.items()}
        ours = sum(used.values())
        row = Row(
            seconds=seconds,
            requests=sum(tally.total for tally in spent.values()),
            management=spent["management"].total,
            workload=spent["workload"].total if "workload" in spent else None,
            writes=sum(tally.writes for tally in spent.values()),
            conflicts=sum(tally.conflicts.total() for tally in spent.values()),
            cpu=ours + sum(served.values()),
            ours=ours,
            memory=sum(memory.values()),
        )
        print(self.table.add(title, row, budget))
        for name, tally in spent.items():
            print(f"  {name}: {served[name]:.1f} s CPU; {by_verb(tally.requests)}")
            self._explain(name, tally)
        for name, seconds in used.items():
            print(f"  {name}: {seconds:.1f} s CPU, {memory.get(name, 0.0):.0f} MiB", flush=True)
        return row

    def _servers(self) -> dict[str, float]:
        return {name: plane.cpu() for name, plane in self.planes.items()}

    def _explain(self, name: str, tally: Tally) -> None:
        if tally.requests:
            print(f"  {name}: {self._details(tally.requests)}")
        if tally.conflicts:
            print(f"  {name}, 409: {self._details(tally.conflicts)}")

    def _details(self, requests: Requests) -> str:
        """Returns the number of requests by verb and resource, or of one object where there are about as many."""
        texts = []
        for (verb, what), count in requests.most_common(_MOST):
            share = f"{count / self.each:.2f} each" if self.each > 1 and count >= self.each / 2 else str(count)
            texts.append(f"{verb} {what} {share}")
        return ", ".join(texts)
