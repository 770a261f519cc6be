# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten secrets of an inventory, each in a vault of Ansible's, and every place that a run writes to.

This machine is the node, with a syslog of its own (tests/lib/quiet_machine.py). The runs are real; nccl-tests and libcuda are the
stand-ins of test_bench_play.py. An apply is refused, because no device has the rail's address: it comes as far as the question of consent.
"""

import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

from agreed import agreed
from quiet_machine import SYSLOG, run_there

from .test_bench_play import PLAY
from .test_bench_play import Site as BenchSite

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections/railwright/rdma"
BIN = Path(sys.executable).parent
VAULT = "open sesame"
HEARD = "syslog is heard"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces with a syslog of their own"),
    pytest.mark.slow,
]


class Vaulted(str):
    """Text that is written as Ansible's vault has it."""

    __slots__ = ()


def _vaulted(dumper: yaml.SafeDumper, text: Vaulted) -> yaml.Node:
    secret = VaultSecret(VAULT.encode())
    return dumper.represent_scalar("!vault", VaultLib([("default", secret)]).encrypt(str(text), secret).decode(), style="|")


yaml.SafeDumper.add_representer(Vaulted, _vaulted)


def planted(secret: list[str]) -> dict[str, Any]:
    """Ten keys that take text of the operator's own."""
    return {
        "rdma_stack": "doca",
        "rdma_stack_repository_url": Vaulted(f"https://mirror.example.com/doca?access_token={secret[0]}"),
        "rdma_stack_repository_key_url": Vaulted(f"https://mirror.example.com/doca.asc?access_token={secret[1]}"),
        "rdma_stack_repository_fingerprint": "0123456789ABCDEF0123456789ABCDEF01234567",
        "nccl_wheel_index": Vaulted(f"https://mirror.example.com/wheels?token={secret[2]}"),
        "host_tuning_sysctls": {"net.ipv4.tcp_fastopen_key": Vaulted(secret[3])},
        "nccl_tests_environment": {"HF_TOKEN": Vaulted(secret[4]), "SITE_NOTE": Vaulted(secret[5])},
        "ddp_benchmark_environment": {"WANDB_API_KEY": Vaulted(secret[6])},
        "upgrade_scheduler": "command",
        "upgrade_drain_command": ["drain", "{node}", Vaulted(secret[7])],
        "upgrade_drained_command": ["drained", "{node}", "--password", Vaulted(secret[8])],
        "upgrade_undrain_command": ["undrain", "{node}", Vaulted(f"--token={secret[9]}")],
    }


class Site:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.secrets = [secrets.token_hex(12) for _ in range(10)]
        target = directory / COLLECTION
        shutil.copytree(ROOT / "playbooks", target / "playbooks")
        for name in ("plugins", "roles", "meta"):
            (target / name).symlink_to(ROOT / name)
        (target / "playbooks" / "nccl_tests.yml").write_text(PLAY)  # the programs are there: nothing is built
        bench = BenchSite(directory)
        bench.gpus()
        bench.program(f"cat {directory}/table.txt")
        own = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_job_user_root": "accept", "result_file": str(directory / "result.json"),
               "__nccl_tests_directory": str(directory), "__nccl_tests_library_path": bench.libraries, **planted(self.secrets)}
        inventory = {"all": {"vars": own, "children": {"rdma": {"hosts": {"n1": bench.node}}}}}
        (directory / "hosts.yml").write_text(yaml.safe_dump(inventory))
        (directory / "password").write_text(VAULT)
        for name in ("tmp", "home", "state"):
            (directory / name).mkdir()

    def command(self, *argv: str) -> dict[str, Any]:
        environment = {
            "HOME": str(self.directory / "home"), "TMPDIR": str(self.directory / "tmp"), "XDG_STATE_HOME": str(self.directory / "state"),
            "PYTHONPATH": f"{self.directory}:{ROOT / '.dev'}:{ROOT / 'src'}", "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_VAULT_PASSWORD_FILE": str(self.directory / "password"), "ANSIBLE_COLLECTIONS_PATH": str(self.directory),
        }
        return {"argv": argv, "env": environment, "cwd": str(self.directory)}

    def railwright(self, *argv: str) -> dict[str, Any]:
        return self.command(sys.executable, "-m", "railwright", *argv, *agreed(argv))

    def places(self) -> dict[str, bytes]:
        """Every file that the runs left: records, reports, what is below /run and in temporary directories, and the syslog."""
        kept = [*(self.directory / "tmp").rglob("*"), *(self.directory / "home").rglob("*"), self.directory / "result.json",
                *self.directory.rglob("run/**/*"), *(self.directory / "state").rglob("*"), *(self.directory / "out").rglob("*")]
        return {str(path): path.read_bytes() for path in [*kept, self.directory / SYSLOG] if path.is_file()}


def test_ten_secrets_are_in_no_place_but_the_inventory(tmp_path: Path) -> None:
    site = Site(tmp_path)
    heard, plan, drift, verbose, apply, bench, report = run_there(tmp_path, [
        site.command(sys.executable, "-c", f"import syslog; syslog.syslog({HEARD!r})"),
        site.railwright("--debug", "plan", "-i", "hosts.yml"),
        site.railwright("drift", "-i", "hosts.yml", "--format", "json"),
        site.command(str(BIN / "ansible-playbook"), "-vvv", "-i", "hosts.yml", "railwright.rdma.drift"),
        site.railwright("apply", "-i", "hosts.yml"),
        site.railwright("bench", "-i", "hosts.yml", "--launcher", "local"),
        site.railwright("report", "-o", "out"),
    ])  # fmt: skip
    said = {"plan": plan, "drift": drift, "verbose": verbose, "apply": apply, "bench": bench, "report": report}
    for answer, words in ((plan, "tcp_fastopen_key"), (drift, "tcp_fastopen_key"), (verbose, "TASK [Look for drift]"),
                          (apply, "no device with mac"), (bench, "busbw: 214.75 GB/s"), (report, "report.md")):
        assert words in answer.output, answer.output
    assert (heard.code, bench.code, report.code) == (0, 0, 0)
    places = site.places() | {name: answer.output.encode() for name, answer in said.items()}
    assert HEARD.encode() in places[str(tmp_path / SYSLOG)]
    assert found(site, places) == []
    assert "?access_token=(hidden)" in drift.output, "what is written on the node is said, and its secret is not"
    assert not [name for name in places if "AnsiballZ" in name]


def found(site: Site, places: dict[str, bytes]) -> list[tuple[str, str]]:
    """(place, key) of each secret that is somewhere."""
    names = [name for name, value in planted([str(number) for number in range(10)]).items() for _secret in range(_count(value))]
    return [(place, names[at]) for place, content in sorted(places.items()) for at, secret in enumerate(site.secrets)
            if secret.encode() in content]


def _count(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(_count(item) for item in (value.values() if isinstance(value, dict) else value))
    return int(isinstance(value, Vaulted))
