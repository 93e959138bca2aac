"""The state file: all that a caller learns about an instance, readable at any moment, asking nobody."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra.local_control_plane import files
from infra.local_control_plane.processes import Process

Phase = Literal["starting", "ready", "failed", "stopped"]


@dataclass
class State:
    """What the keeper last wrote. `url` is "" until a port is chosen, `error` "" unless `phase` is failed.

    `servers` has the processes by the names of their executables, in the order in which they were started.
    """

    phase: Phase
    url: str = ""
    error: str = ""
    keeper: Process | None = None
    servers: dict[str, Process] = field(default_factory=dict)

    @property
    def processes(self) -> list[Process]:
        """The recorded processes, which may have ended since, in the order in which they should end."""
        return [*([self.keeper] if self.keeper else []), *reversed(self.servers.values())]

    @property
    def port(self) -> int:
        """The port in `url`, 0 if there is none."""
        return int(self.url.rpartition(":")[2] or 0)

    def write(self, path: Path) -> None:
        files.write(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "State | None":
        """None if there is no such file; a file that is not ours reads as failed, with the reason."""
        try:
            content = json.loads(path.read_bytes())
            content["keeper"] = Process(**content["keeper"]) if content["keeper"] else None
            content["servers"] = {name: Process(**process) for name, process in content["servers"].items()}
            return cls(**content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return cls("failed", error=f"{path} is not readable as a state file: {error}")
