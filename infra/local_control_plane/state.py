"""The state file of an instance: the supervisor writes it, and any process may read it at any time."""

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
    """The content of the state file.

    Attributes:
        phase: "starting", "ready" (the API server answers), "failed" (see `error`), or "stopped".
        url: The URL of the API server; "" until a port is chosen.
        error: Why `phase` is "failed", else "".
        supervisor: The process of the supervisor.
        servers: The processes of the servers by name of the executable, in the order of their start.
    """

    phase: Phase
    url: str = ""
    error: str = ""
    supervisor: Process | None = None
    servers: dict[str, Process] = field(default_factory=dict)

    @property
    def processes(self) -> list[Process]:
        """The recorded processes in the order in which to end them. Some may have ended already."""
        return [*([self.supervisor] if self.supervisor else []), *reversed(self.servers.values())]

    @property
    def port(self) -> int:
        """The port in `url`, 0 if `url` is empty."""
        return int(self.url.rpartition(":")[2] or 0)

    def write(self, path: Path) -> None:
        """Writes the state file atomically. Raises OSError."""
        files.write(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "State | None":
        """Returns the state in the file, None without a file. For a damaged file the phase is "failed"."""
        try:
            content = json.loads(path.read_bytes())
            content["supervisor"] = Process(**content["supervisor"]) if content["supervisor"] else None
            content["servers"] = {name: Process(**process) for name, process in content["servers"].items()}
            return cls(**content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return cls("failed", error=f"{path} is not readable as a state file: {error}")
