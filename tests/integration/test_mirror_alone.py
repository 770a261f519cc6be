# SPDX-License-Identifier: GPL-3.0-or-later
"""Role mpi installs HPC-X from a mirror that ``railwright artifacts --mirror`` filled, on a node that reaches nothing else.

This machine is the node (tests/lib/quiet_machine.py), called Ubuntu 24.04, in a network namespace with nothing but loopback, where Python's
own http.server serves the directory. Verb, playbook, download and unpacking are real; the archive is a stand-in in HPC-X's form, and the
vendor's host a server here that is reached by https through a proxy.
"""

import bz2
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, located
from quiet_machine import Said, run_there
from repo import ROOT
from vendor_server import Vendor, own_certificate

from .test_plain_plays import PLAYBOOK

HOST, PORT = "content.mellanox.com", 8765
SYSTEM = 'ID=ubuntu\nVERSION_ID="24.04"\nNAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04 LTS"\nVERSION_CODENAME=noble\n'
MPIRUN = '#!/bin/sh\n[ -n "$OPAL_PREFIX" ] && echo "mpirun (Open MPI) 4.1.9a1"\n'
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: railwright.rdma.mpi, tasks_from: prefix}
    - ansible.builtin.command: {argv: [readlink, -f, /opt/railwright/hpcx/current/ompi/bin/mpirun]}
      register: told
    - ansible.builtin.debug: {var: told.stdout}
"""
NODE = f"""set -e
mount --bind os-release /usr/lib/os-release
mount -t tmpfs tmpfs /opt
mount -t tmpfs tmpfs /var/cache
ip link set lo up
{sys.executable} -m http.server --bind 127.0.0.1 --directory mirror {PORT} >served.txt 2>&1 &
server=$!
sleep 2
for run in $RUNS; do echo "== $run"; {PLAYBOOK} -i "$run.yml" play.yml || echo "== ended $?"; done
kill $server
"""

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own"), pytest.mark.slow,
              pytest.mark.xdist_group("mirror alone")]


def archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, mode, text in (("ompi/bin/mpirun", 0o755, MPIRUN), ("ucx/lib/libucp.so.0", 0o644, "\x7fELF"),
                                 ("hpcx-init.sh", 0o644, "hpcx_load() { :; }\n")):
            row = tarfile.TarInfo("hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64/" + name)
            row.mode, row.size = mode, len(text)
            tar.addfile(row, io.BytesIO(text.encode()))
    return bz2.compress(content.getvalue())


def inventory(file: Path, **values: Any) -> None:
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False, "rdma_fabric": "roce",
            "rdma_mtu": 9000, "rdma_rails": [], "rdma_stack": "inbox", "ansible_async_dir": str(file.parent / "async"),
            "nccl_tests_archive": "/srv/nccl-tests.tar.gz", "mpi_install": "hpcx",
            **values}
    file.write_text(json.dumps({"all": {"children": {"rdma": {"hosts": {"n1": node}}}}}))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Said, Path]:
    directory = tmp_path_factory.mktemp("mirror")
    vendor, content = Vendor(own_certificate(directory, HOST)), archive()
    rows = [row for row in ARTIFACTS if row.name.startswith("hpcx-")]
    vendor.files = {located(row).removeprefix("https://"): content for row in rows}
    vendor.breaks = [len(content) // 2]
    pins = {row.name: hashlib.sha256(content).hexdigest() for row in rows}
    inventory(directory / "vendor.yml", rdma_artifact_pins=pins)
    inventory(directory / "mirror.yml", rdma_artifact_pins=pins, rdma_artifact_mirror=f"http://127.0.0.1:{PORT}")
    path = f"{ROOT}/src:{ROOT}/.dev"
    verb = subprocess.run([sys.executable, "-m", "railwright", "artifacts", "-i", "mirror.yml", "--mirror", "mirror"], cwd=directory,
                          env={**os.environ, "PYTHONPATH": path, "https_proxy": vendor.url, "SSL_CERT_FILE": str(directory / "host.pem")},
                          capture_output=True, text=True, check=False)
    vendor.close()
    (directory / "os-release").write_text(SYSTEM)
    (directory / "play.yml").write_text(PLAY)
    environment = {"HOME": str(directory), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"),
                   "RUNS": "vendor mirror mirror"}
    (said,) = run_there(directory, [{"argv": ["unshare", "--net", "--mount", "sh", "-c", NODE], "cwd": str(directory), "env": environment}])
    return verb, said, directory


def test_the_verb_fills_the_mirror_past_a_broken_connection(told: tuple[subprocess.CompletedProcess[str], Said, Path]) -> None:
    verb, _said, directory = told
    assert verb.returncode == 0, verb.stdout + verb.stderr
    assert verb.stderr.endswith("6 fetched, 0 kept, 0 left out, 0 failed\n")
    assert subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=directory / "mirror", check=False).returncode == 0


def test_the_role_installs_from_the_mirror_and_nothing_else(told: tuple[subprocess.CompletedProcess[str], Said, Path]) -> None:
    output = told[1].output
    _start, alone, first, second = re.split(r"== (?:vendor|mirror)\n", output)
    assert "== ended 2" in alone, output
    assert re.search(r"mpi: cannot bring .*: Request failed", alone), output
    for run, changed in ((first, 2), (second, 1)):  # the command of the play always counts
        assert "== ended" not in run, output
        assert "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun" in run, output
        assert re.search(rf"^n1 +: ok=\d+ +changed={changed} ", run, re.MULTILINE), output
    served = (told[2] / "served.txt").read_text()
    assert re.findall(r'"GET (\S+) ', served) == [
        f"/{HOST}/hpc/hpc-x/v2.25.1_cuda13/hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64.tbz"]
