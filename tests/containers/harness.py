# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that boot systemd, made on the spot: what every container test stands on.

An image is a Debian root file system from mmdebstrap, keyed by its package list and
kept as a tar file below ``${XDG_CACHE_HOME:-~/.cache}/railwright/images``, so that
it is built once. Set RAILWRIGHT_TEST_IMAGE to use a ready-made image instead. A
container gets the capabilities to change its own interfaces and nothing of the host's.

``python tests/containers/harness.py image PACKAGE …`` prints the image for a package
list, for callers that are not Python (molecule's create step).
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BASE_PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "iproute2", "kmod")
SUITE = "bookworm"
CAPABILITIES = ("NET_ADMIN", "NET_RAW", "SYS_ADMIN")
BUILD_SECONDS, START_SECONDS, COMMAND_SECONDS = 900, 60, 120
TOOLS = ("podman", "mmdebstrap")
# systemd 256 and later refuse to start on cgroup v1 without this word on the command line, which in a container is that of
# process 1; older ones do not know it, and where there is cgroup v2 nobody asks.
LEGACY_CGROUPS = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"


class HarnessError(Exception):
    """The machine could not do what a test needs; the text says what."""


def cache() -> Path:
    """Where images and podman's settings are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(base) / "railwright" / "images"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def environment() -> dict[str, str]:
    """Podman's environment: settings of our own, so that the machine's are neither needed nor touched.

    runc where it is installed, as crun refuses hybrid cgroups; limits that a machine
    without CAP_SYS_RESOURCE can set, as raising one above its hard limit fails.
    """
    text = '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'
    if shutil.which("runc"):
        text = '[engine]\nruntime = "runc"\n' + text
    settings = cache() / "containers.conf"
    if not settings.is_file() or settings.read_text(encoding="utf-8") != text:
        temporary = settings.with_suffix(f".{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(settings)
    return dict(os.environ, CONTAINERS_CONF=str(settings))


def missing_tools() -> list[str]:
    """Programs that the harness needs and this machine lacks."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def podman(*argv: str, stdin: str | None = None, check: bool = True, timeout: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run podman; a failure carries its own words."""
    done = subprocess.run(
        ("podman", *argv), input=stdin, capture_output=True, text=True, check=False, timeout=timeout, env=environment())
    if check and done.returncode != 0:
        raise HarnessError(f"podman {' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One builder at a time: parallel tests want the same image."""
    with path.open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def build(packages: Sequence[str] = (), suite: str = SUITE, base: Sequence[str] = BASE_PACKAGES) -> str:
    """The image of a Debian release with systemd and Python, or another base, and these packages: built, imported, or already there."""
    ready = os.environ.get("RAILWRIGHT_TEST_IMAGE")
    if ready:
        return ready
    absent = missing_tools()
    if absent:
        raise HarnessError(f"needed for container tests and not installed: {', '.join(absent)}")
    wanted = sorted({*base, *packages})
    key = hashlib.sha256(json.dumps([suite, wanted]).encode()).hexdigest()[:16]
    image = f"localhost/railwright-test:{key}"
    with locked(cache() / f"{key}.lock"):
        if podman("image", "exists", image, check=False).returncode == 0:
            return image
        archive = cache() / f"{key}.tar"
        if not archive.is_file():
            _bootstrap(wanted, archive, suite)
        podman("import", "--quiet", str(archive), image, timeout=BUILD_SECONDS)
    return image


def _bootstrap(packages: Sequence[str], archive: Path, suite: str) -> None:
    temporary = archive.with_suffix(f".{os.getpid()}.tar")
    argv = ("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", suite, str(temporary))
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        if done.returncode != 0:
            raise HarnessError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
        temporary.replace(archive)
    finally:
        temporary.unlink(missing_ok=True)


class Link(NamedTuple):
    """An interface of a container on a network. A MAC makes it the same one after every restart."""

    network: str
    name: str
    mac: str | None = None
    ip: str | None = None

    def argument(self) -> str:
        fixed = "".join(f",{key}={value}" for key, value in (("mac", self.mac), ("ip", self.ip)) if value)
        return f"{self.network}:interface_name={self.name}{fixed}"


class Container:
    """A running container with systemd as its first process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(
        self, *argv: str, stdin: str | None = None, check: bool = True, timeout: float = COMMAND_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside; raises HarnessError with its output when it fails and ``check`` is on."""
        return podman("exec", *(("-i",) if stdin is not None else ()), self.name, *argv, stdin=stdin, check=check, timeout=timeout)

    def out(self, *argv: str) -> str:
        return self.run(*argv).stdout

    def json(self, *argv: str) -> Any:
        return json.loads(self.out(*argv) or "null")

    def write(self, path: str, content: str, mode: str = "0644") -> None:
        """Put a file into place, with its directory."""
        self.run("install", "-D", "-m", mode, "/dev/stdin", path, stdin=content)

    def copy_in(self, source: Path, target: str) -> None:
        podman("cp", str(source), f"{self.name}:{target}")

    def copy_out(self, source: str, target: Path) -> None:
        podman("cp", f"{self.name}:{source}", str(target))

    def address(self) -> str:
        """Its address on the first network that gave it one."""
        found = self.addresses()
        if not found:
            raise HarnessError(f"container {self.name} has no address on any network")
        return found[0]

    def addresses(self) -> list[str]:
        networks = json.loads(podman("inspect", self.name).stdout)[0]["NetworkSettings"]["Networks"]
        return [str(item["IPAddress"]) for item in networks.values() if item.get("IPAddress")]

    def wait_booted(self) -> None:
        """Until systemd has started everything; failed units are named."""
        deadline = time.monotonic() + START_SECONDS
        state = ""
        while time.monotonic() < deadline:
            state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
            if state == "running":
                return
            if state == "degraded":
                raise HarnessError(f"{self.name}: failed units: {self.out('systemctl', '--failed', '--plain', '--no-legend').strip()}")
            time.sleep(0.2)
        raise HarnessError(f"{self.name}: not booted after {START_SECONDS} s, systemd says {state or 'nothing'}")

    def restart(self) -> None:
        """A reboot as far as a container has one: processes, /run and interfaces are made anew."""
        podman("restart", "--time", "5", self.name)
        self.wait_booted()
        # Its interfaces have other MACs now, and this machine would go on with those that it learned before, for half a minute.
        for address in self.addresses():
            subprocess.run(["ip", "neigh", "flush", "to", address], check=False, capture_output=True, timeout=COMMAND_SECONDS)

    def remove(self) -> None:
        podman("rm", "--force", "--time", "2", self.name, check=False)


def start(image: str, name: str, links: Sequence[Link] = (), *, privileged: bool = False, options: Sequence[str] = ()) -> Container:
    """Boot a container and wait for it. One of the same name that a killed run left behind goes first."""
    container = Container(name)
    container.remove()
    rights = ["--privileged"] if privileged else [f"--cap-add={','.join(CAPABILITIES)}"]
    networks = [item for link in links for item in ("--network", link.argument())]
    podman("run", "--detach", "--name", name, "--hostname", name, "--systemd=always", *rights, *networks, *options, image,
           "/sbin/init", LEGACY_CGROUPS)
    container.wait_booted()
    return container


def create_network(name: str, mtu: int | None = None) -> str:
    """A bridge without addresses, gateway or way out: a fabric for rails. ``mtu`` is the switch's, and what its interfaces start with."""
    if podman("network", "exists", name, check=False).returncode != 0:
        size = ("--opt", f"mtu={mtu}") if mtu else ()
        podman("network", "create", "--internal", "--disable-dns", "--ipam-driver", "none", *size, name)
    return name


def create_management_network(name: str) -> str:
    """A network with a way out and a range of its own; returns the range. Package installs and ssh go over it."""
    if podman("network", "exists", name, check=False).returncode != 0:
        podman("network", "create", "--disable-dns", name)
    return str(json.loads(podman("network", "inspect", name).stdout)[0]["subnets"][0]["subnet"])


def remove_network(name: str) -> None:
    podman("network", "rm", "--force", name, check=False)


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0] != "image":
        sys.stderr.write("usage: harness.py image [PACKAGE ...]\n")
        return 64
    try:
        sys.stdout.write(build(argv[1:]) + "\n")
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
