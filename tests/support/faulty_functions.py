"""A functions process whose API servers, object store, disk, clock and name resolution can fail, and be mended."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from events.delivery import HttpDelivery
from infra.local.functions_server import FunctionsServer
from shared.storage import ObjectStore
from tests.support.api_proxy import Proxy, api_server, object_store_server
from tests.support.event_receiver import EventReceiver
from tests.support.http_server import HttpServer, Request, Response
from tests.support.until import HANGS, until

_SHIM = Path(__file__).with_name("faulty_process")


@dataclass
class FaultyFunctions:
    """A process of all functions. All that it talks to is real, and behind a proxy each."""

    server: FunctionsServer
    deliver: HttpDelivery
    management: Proxy
    workload: Proxy
    storage: Proxy
    site: HttpServer
    """The host of the providers' releases: the folder `providers`."""
    source: Proxy
    """The proxy in front of `site`."""
    sink: EventReceiver
    """Where functions send events: in place of a broker."""
    folder: Path

    @property
    def releases(self) -> Path:
        """The folder of cluster stack releases."""
        return self.folder / "releases"

    @property
    def providers(self) -> Path:
        """The folder of providers' releases."""
        return self.folder / "providers"

    @property
    def log(self) -> Path:
        return self.folder / "functions.log"

    # -- faults in the process ---------------------------------------------------------------------------------

    def shift_clock(self, seconds: float) -> None:
        (self.folder / "faults" / "clock").write_text(str(seconds))

    def lose_names(self, lost: bool) -> None:
        """Lets the resolution of `localhost` fail, as it does where DNS servers do not answer."""
        file = self.folder / "faults" / "dns"
        file.touch() if lost else file.unlink(missing_ok=True)

    def fill_disk(self, full: bool) -> None:
        """Lets each write to a file fail."""
        for pid in self.pids:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def heal(self) -> None:
        for proxy in (self.management, self.workload, self.storage, self.source):
            proxy.heal()
        self.shift_clock(0)
        self.lose_names(False)
        self.fill_disk(False)

    # -- memory ------------------------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """The ids of the server and of its workers."""
        assert self.server.process is not None
        master = self.server.process.pid
        children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        return [master, *map(int, children)]

    def forget_peak(self) -> None:
        """Lets the kernel measure peak memory anew."""
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak(self) -> int:
        """Returns the peak memory in MiB (VmHWM) of the worker."""
        return max(_peak(pid) for pid in self.pids)


def by_name(proxy: Proxy) -> bytes:
    """Returns the kubeconfig of a proxy with a host name, which has to be resolved."""
    return proxy.kubeconfig.replace(b"127.0.0.1", b"localhost")


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


@contextmanager
def faulty_functions(
    kubeconfig: Path, object_store: ObjectStore, object_store_url: str, folder: Path, helm: Path
) -> Iterator[FaultyFunctions]:
    """Runs the process in `folder`; the environment describes the object store. `helm` is the program."""
    for name in ("releases", "providers", "faults"):
        (folder / name).mkdir(parents=True)
    with ExitStack() as stack:
        management, workload = (stack.enter_context(Proxy(api_server(kubeconfig))) for _ in range(2))
        storage = stack.enter_context(Proxy(object_store_server(object_store_url)))
        site = stack.enter_context(HttpServer(_files(folder / "providers")))
        sink = stack.enter_context(EventReceiver())
        source = stack.enter_context(Proxy(object_store_server(site.url)))
        (folder / "kubeconfig").write_bytes(by_name(management))
        environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "RELEASE_SOURCE": str(folder / "releases"),
            "GITHUB_URL": f"http://localhost:{source.port}",
            "GITHUB_API_URL": f"http://localhost:{source.port}",
            "S3_ENDPOINT_URL": storage.url,
            "CAPI_FUNCTIONS_BUCKET": object_store.bucket,
            "CAPI_FUNCTIONS_TEST_FAULTS": str(folder / "faults"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_SHIM), os.environ.get("PYTHONPATH")])),
            "LOG_LEVEL": "WARNING",
            "HELM": str(helm),
            "K_SINK": sink.url,
        }
        pipe = folder / "functions.pipe"  # as in a container, where a full disk does not concern the log
        os.mkfifo(pipe)
        reader = Thread(target=_copy, args=(pipe, folder / "functions.log"), daemon=True)
        reader.start()
        server = FunctionsServer(environment, pipe)
        stack.callback(server.close)
        server.start()
        deliver = HttpDelivery(server.url, timeout=(HANGS, HANGS))
        stack.callback(deliver.close)
        functions = FaultyFunctions(server, deliver, management, workload, storage, site, source, sink, folder)
        until(lambda: len(functions.pids) > 1, "a worker")
        yield functions


def _copy(pipe: Path, log: Path) -> None:
    with pipe.open("rb") as source, log.open("wb") as target:
        while data := source.read1(65536):
            target.write(data)
            target.flush()


def _files(folder: Path) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        file = folder / request.path.partition("?")[0].lstrip("/")
        return Response(body=file.read_bytes()) if file.is_file() else Response(404)

    return answer
