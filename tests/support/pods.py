"""Runs the pods of the generated manifests as processes of this machine, isolated as their manifests say.

Command, environment, mounted volumes and rights are those of the Deployment, the image, the SinkBinding and the
ServiceAccount. The test stands in for the kubelet: volumes are folders, and the account's token is in a kubeconfig. An
isolated pod has them where its manifest mounts them, on a root of its own that is read-only, and is not root.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import urllib3
import yaml

from infra.generate.__main__ import PROJECT
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Client, Key, Object, dig
from shared.kube.connect import inline_credentials
from shared.network import ALLOWED
from tests.support import processes
from tests.support.accounts import kubeconfig_of
from tests.support.ports import free_port
from tests.support.until import logged, until

MANIFESTS = PROJECT / "infra/manifests/base"
_SERVICE_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
"""`/var/run` is a link to `/run`, as in the image."""
_PROGRAMS = Path(sys.executable).parent


def functions() -> list[Path]:
    """Returns the manifest files of all functions."""
    return sorted(MANIFESTS.glob("function-*.yaml"))


def image_environment() -> dict[str, str]:
    """Returns the environment variables of the image."""
    last_stage = (PROJECT / "infra" / "image" / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    lines = (line.removeprefix("ENV ") for line in last_stage.splitlines() if line.startswith("ENV "))
    pairs = (pair.partition("=") for line in lines for pair in line.split())
    return {name: value for name, _, value in pairs}


def isolation() -> bool:
    """Returns whether tests can run isolated processes on this machine."""
    if os.geteuid() != 0 or shutil.which("nsenter") is None or not Path("/var/run").is_symlink():
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


class Pod:
    """A context manager that runs one container of a manifest; `url` is where it listens.

    `client` and `kubeconfig` are an administrator's, `sink` is the broker's address, which only a Deployment with a
    SinkBinding gets. `deployment` and `container` name one of several, `access` is the manifest with the rights, and
    `ports` has the ports of this machine that stand for those of the pod.
    """

    def __init__(
        self,
        manifest: Path,
        folder: Path,
        client: Client,
        kubeconfig: Path,
        sink: str = "",
        *,
        isolated: bool = False,
        container: str = "",
        access: Path | None = None,
        ports: Mapping[int, int] | None = None,
        arguments: Sequence[str] = (),
        deployment: str = "",
    ) -> None:
        self._isolated = isolated
        self._ports = {port: free_port() for port in (8080, 9090, 9091)} | {**(ports or {})}
        self._arguments = arguments
        objects = [obj for obj in yaml.safe_load_all(manifest.read_text()) if obj]
        (found,) = (
            obj for obj in objects if obj["kind"] == "Deployment" and deployment in ("", obj["metadata"]["name"])
        )
        self.name: str = found["metadata"]["name"]
        self.spec: Object = found["spec"]["template"]["spec"]
        (self._container,) = (one for one in self.spec["containers"] if container in ("", one["name"]))
        self._client = client
        self._folder = folder / (container or self.name)
        self._folder.mkdir(parents=True)
        self.mounts = {mount["mountPath"]: self._folder / mount["name"] for mount in self._container["volumeMounts"]}
        for place in self.mounts.values():
            place.mkdir()
        self.sync()
        bound = [obj["spec"]["subject"]["name"] for obj in objects if obj["kind"] == "SinkBinding"]
        assert "envFrom" not in self._container
        declared = {variable["name"]: variable["value"] for variable in self._container["env"]}
        self.environment = image_environment() | declared | ({"K_SINK": sink} if self.name in bound else {})
        self.kubeconfig = self._folder / "kubeconfig"
        kubeconfig_of(client, kubeconfig, access or manifest, self.kubeconfig, self.spec["serviceAccountName"])
        self.log = self._folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._ports[8080]}"
        self.metrics_url = f"http://127.0.0.1:{self._ports[9091]}"

    def sync(self) -> None:
        """Updates the ConfigMaps and Secrets in the mounted volumes, as the kubelet does every minute."""
        places = {mount["name"]: self.mounts[mount["mountPath"]] for mount in self._container["volumeMounts"]}
        for volume in self.spec["volumes"]:
            if "projected" not in volume:
                continue
            files: dict[str, bytes] = {}
            for source in volume["projected"]["sources"]:
                [(kind, what)] = source.items()
                resource = {"configMap": CONFIG_MAP, "secret": SECRET}[kind]
                data = dig(self._client.find(resource, Key("capi-functions", what["name"])), "data", {})
                is_secret = kind == "secret"
                files |= {key: base64.b64decode(text) if is_secret else text.encode() for key, text in data.items()}
            for old in places[volume["name"]].iterdir():
                if old.name not in files:
                    old.unlink()
            for name, content in files.items():
                (places[volume["name"]] / name).write_bytes(content)

    def command(self) -> list[str]:
        words: list[str] = self._container["command"] + self._container["args"]
        program, *rest = words
        return [str(_PROGRAMS / program), *(self._here(argument) for argument in rest), *self._arguments]

    def __enter__(self) -> Pod:
        environment = {name: self._here(value) for name, value in self.environment.items()}
        environment["PATH"] = f"{_PROGRAMS}:/usr/bin:/bin"
        command = self.command()
        if self._isolated:
            environment |= self._service_account()
            command = ["unshare", "--mount", "--propagation=private", "sh", "-euc", self._script(), "sh", *command]
        else:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        with self.log.open("ab") as output:
            self.process = processes.start(
                command,
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()
            self.process.wait()

    def until_ready(self) -> None:
        """Waits until the readiness probe succeeds."""

        def answers() -> bool:
            assert self.process is None or self.process.poll() is None, self.log.read_text()
            try:
                return urllib3.request("GET", self.url, timeout=2.0, retries=False).status == 200
            except urllib3.exceptions.HTTPError:
                return False

        until(answers, f"{self.name} answers", details=logged(self.log))

    def in_namespace(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in the running container, as its user."""
        assert self.process is not None
        user = self.spec["securityContext"]
        enter = ["nsenter", f"--target={self.process.pid}", "--mount", "--root"]
        identity = [f"--setuid={user['runAsUser']}", f"--setgid={user['runAsGroup']}"]
        return subprocess.run([*enter, *identity, *command], capture_output=True, check=False)

    def _service_account(self) -> dict[str, str]:
        """Returns the environment variables and writes the files with which pods find the API server."""
        server = inline_credentials(self.kubeconfig.read_bytes())
        assert server.token is not None
        folder = self._folder / "serviceaccount"
        folder.mkdir()
        (folder / "token").write_text(server.token())
        (folder / "ca.crt").write_bytes(server.ca)
        self.mounts[_SERVICE_ACCOUNT] = folder
        address = urlsplit(server.host)
        return {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            ALLOWED: "127.0.0.0/8",  # these pods have no network of their own: all servers are on loopback
        }

    def _script(self) -> str:
        """Returns a script that runs its arguments in a root file system of its own.

        It has the programs of this machine, the image's folder, and the volumes.
        """
        root, security = self._folder / "root", self.spec["securityContext"]
        root.mkdir()
        user = f"{security['runAsUser']}:{security['runAsGroup']}"
        lines = [f"mount -t tmpfs tmpfs {root}"]
        for place in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/var"):
            if Path(place).is_symlink():
                lines.append(f"cp -P {place} {root}{place}")
            elif Path(place).exists():
                lines.append(f"mkdir {root}{place}; mount --rbind {place} {root}{place}")
        for place, folder in self.mounts.items():
            writable = place == "/tmp"
            lines.append(f"mkdir -p {root}{place}; mount --bind {folder} {root}{place}")
            lines.append(f"chown {user} {folder}" if writable else f"mount -o remount,bind,ro {root}{place}")
        for path, place in ((PROJECT, "/app"), *((path, str(path)) for path in (sys.base_prefix, sys.prefix, PROJECT))):
            lines.append(f"mkdir -p {root}{place}; mount --bind {path} {root}{place}")
            lines.append(f"mount -o remount,bind,ro {root}{place}")
        lines.append(f"mount -o remount,ro {root}")
        lines.append(f'exec {shutil.which("chroot")} --userspec={user} {root} sh -c \'cd /app; exec "$@"\' sh "$@"')
        return "\n".join(lines)

    def _here(self, text: str) -> str:
        """Returns the path, the address or the argument on this machine for one in the container."""
        for port, here in self._ports.items():
            text = re.sub(rf"(0\.0\.0\.0|127\.0\.0\.1):{port}$", f"127.0.0.1:{here}", text)
            text = re.sub(rf"^(--(?:health-)?port=|){port}$", rf"\g<1>{here}", text)
        if self._isolated:
            return text
        for place, folder in self.mounts.items():
            if text == place or text.startswith(f"{place}/"):
                return f"{folder}{text.removeprefix(place)}"
        return text
