# SPDX-License-Identifier: GPL-3.0-or-later
"""What the job user compiled, or owns, never runs with root's rights: real programs, the real loader, a real user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import readiness
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import install
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
USER = pwd.getpwnam("nobody")
# The loader runs la_version of every audit library that a program names, also where it is only asked for the program's libraries.
AUDIT = """
#include <stdio.h>
#include <unistd.h>
unsigned la_version(unsigned version) {
    FILE *told = fopen("%s", "a");
    if (told) { fprintf(told, "%%d\\n", (int) geteuid()); fclose(told); }
    return version;
}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """The user's own directory; pytest's is closed to others than root."""
    path = Path(tempfile.mkdtemp(dir="/tmp", prefix="railwright-test-"))
    path.chmod(0o755)
    os.chown(path, USER.pw_uid, USER.pw_gid)
    yield path
    shutil.rmtree(path)


def who_ran(place: Path) -> set[str]:
    told = place / "told"
    return set(told.read_text().split()) if told.exists() else set()


def test_the_loader_does_not_inspect_a_users_program_as_root(place: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler makes the user's program: tools/need compiler"
    (place / "audit.c").write_text(AUDIT % (place / "told"))
    (place / "main.c").write_text("int main(void) { return 0; }\n")
    library = str(place / "audit.so")
    subprocess.run((compiler, "-shared", "-fPIC", "-o", library, place / "audit.c"), check=True)
    subprocess.run((compiler, f"-Wl,--audit={library}", "-o", place / "all_reduce_perf", place / "main.c"), check=True)
    given = {"directory": str(place), "programs": {}, "pending": False, "gpus": 1, "first": "all_reduce_perf", "library_path": [],
             "user": USER.pw_name}
    assert install.verify(Host(), given)["library_path"] == []
    assert who_ran(place) <= {str(USER.pw_uid)}


class WithoutSlowParts(Host):
    """Only what lies in the user's directory is run."""

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        wanted = any("/railwright-test-" in word for word in argv)
        return super().run(argv, timeout, stdin) if wanted else Result(127, "", "")


def test_an_mpi_of_the_users_is_asked_with_the_users_rights(place: Path) -> None:
    programs = {"mpirun": 'echo "mpirun (Open MPI) 4.1.6"', "mpicc": f"echo gcc -I{place} -L{place} -lmpi"}
    (place / "bin").mkdir()
    for name, says in programs.items():
        (place / "bin" / name).write_text(f"#!/bin/sh\nid -u >> {place}/told\n{says}\n")
        (place / "bin" / name).chmod(0o755)
    for name in ("mpi.h", "libmpi.so"):
        (place / name).touch()
    host = WithoutSlowParts()
    given = {"cuda_version": None, "nccl_prefix": "/nowhere", "nccl_origin": None, "mpi_prefix": str(place), "mpi_install": "none",
             "nfs": None, "user": USER.pw_name}
    assert install.inspect(host, given)["node"]["mpi"]["library"] == f"{place}/libmpi.so"
    assert who_ran(place) == {str(USER.pw_uid)}
    (place / "told").unlink()
    spec = Spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "consent": [], "expect": {}, "rails": [], "nccl_prefix": "/nowhere",
                 "mpi_install": "none", "bootstrap_interface": "lo", "nccl_tests_inspector": None})
    wanted = readiness.Wanted(USER.pw_name, str(place), (), (), str(place), {})
    seen = readiness.inspect_readiness(host, "n1", spec, observe_identity(host, None), wanted)
    assert [row["version"] for row in seen["mpi"]] == ["4.1.6"]
    assert who_ran(place) == {str(USER.pw_uid)}
