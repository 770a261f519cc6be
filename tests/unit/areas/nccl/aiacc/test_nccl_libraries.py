# SPDX-License-Identifier: GPL-3.0-or-later
"""Every NCCL that a job can load is found, with its version from the file and who brought it. Nodes are written; grep is real."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aiacc_node import AiaccNode
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import LoadableNccl as Nccl
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import Places, linked_version, loadable_nccl
from nccl_files import elf

MakeNode = Callable[..., AiaccNode]
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
LOCAL = "/usr/local/lib/libnccl.so.2"


def found(node: AiaccNode, places: Places | None = None) -> tuple[Nccl, ...]:
    return loadable_nccl(node, observe_identity(node), places)


@pytest.mark.parametrize("os_name", ["ubuntu2404", "rocky9"])
def test_the_loaders_own_are_the_packages_or_the_sites(node: MakeNode, os_name: str) -> None:
    host = node(os_name)
    system = "/usr/lib64/libnccl.so.2" if host.rpm else SYSTEM
    host.nccl(system, "2.16.5")
    host.install("libnccl" if host.rpm else "libnccl2", "2.16.5-1+cuda11.8", system)
    host.nccl(LOCAL, "2.18.3")
    host.ldconfig()
    assert set(found(host)) == {Nccl(system, "2.16.5", "package"), Nccl(LOCAL, "2.18.3", "site")}


def test_a_library_that_the_cache_calls_lib_and_the_package_usr_lib(node: MakeNode) -> None:
    """Debian's ldconfig prints /lib/x86_64-linux-gnu, where /lib is a link to usr/lib."""
    host = node()
    host.nccl(SYSTEM, "2.12.12")
    host.install("libnccl2", "2.12.12-1+cuda11.6", SYSTEM)
    Path(host.path("/"), "lib").symlink_to("usr/lib")
    host.cache = {"libnccl.so.2": [SYSTEM.replace("/usr", "")]}
    assert found(host) == (Nccl("/lib/x86_64-linux-gnu/libnccl.so.2", "2.12.12", "package"),)


def test_usr_local_lib_counts_although_the_loader_does_not_search_it(node: MakeNode) -> None:
    host = node("rocky9")
    host.nccl(LOCAL, "2.8.4")
    host.ldconfig()
    assert "libnccl.so.2" not in host.cache
    assert found(host) == (Nccl(LOCAL, "2.8.4", "site"),)


def test_deepnccl_is_told_by_its_package_or_by_what_it_left(node: MakeNode) -> None:
    host = node()
    host.nccl(LOCAL, "2.19.3")
    host.install("deep-nccl", "1.0", LOCAL)
    assert found(host) == (Nccl(LOCAL, "2.19.3", "deepnccl"),)
    other = node("debian12")
    other.nccl(LOCAL, "2.19.3")
    other.nccl(LOCAL + ".bak", "2.16.5")
    assert found(other) == (Nccl(LOCAL, "2.19.3", "deepnccl"),)


def test_a_library_of_an_aiacc_package(node: MakeNode) -> None:
    host = node()
    host.nccl(LOCAL, "2.10.3")
    host.install("aiacc-nccl", "1.0", LOCAL)
    assert found(host)[0].origin == "aiacc"


def test_prefixes_and_torch_of_the_environment_and_of_the_benchmark(node: MakeNode) -> None:
    host = node()
    host.nccl("/opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2", "2.30.7")
    version = "/opt/railwright/ai/2.0.1-cu118"
    wheel = "lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
    host.nccl(f"{version}/{wheel}", "2.14.3")
    host.put(f"{version}/bin/python3", "#!")
    Path(host.path("/opt/railwright/ai"), "current").symlink_to("2.0.1-cu118")
    assert found(host, Places(python="/opt/railwright/ai/current/bin/python"))[1:] == (Nccl(f"{version}/{wheel}", "2.14.3", "torch"),)
    host.nccl(f"/opt/torch/{wheel}", "2.18.1")
    places = Places(python="/opt/torch/bin/python3")
    assert found(host, places) == (
        Nccl("/opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2", "2.30.7", "prefix"),
        Nccl(f"{version}/{wheel}", "2.14.3", "torch"),
        Nccl(f"/opt/torch/{wheel}", "2.18.1", "torch"),
    )


def test_nccl_that_is_linked_into_an_old_torch(node: MakeNode) -> None:
    """torch 1.10.1 of the document has no libnccl.so.2 of its own. A torch that loads one has no such text."""
    host = node()
    directory = "/opt/torch/lib/python3.8/site-packages/torch/lib"
    host.put(f"{directory}/libtorch_cuda_cpp.so", b"\x7fELF" + bytes(5000) + b"\n\xff" + elf("2.10.3", "11.1"))
    host.put(f"{directory}/libtorch_cuda_cu.so", b"\x7fELF" + elf("2.99.9"))
    host.put(f"{directory}/libtorch_cuda.so", b"\x7fELF NCCL version \0")
    assert found(host, Places(python="/opt/torch/bin/python3")) == (Nccl(f"{directory}/libtorch_cuda_cpp.so", "2.10.3", "torch"),)
    assert linked_version(host, "/nowhere") is None


def test_a_virtual_environment_may_use_the_systems_packages_too(node: MakeNode) -> None:
    host = node()
    host.nccl("/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2", "2.14.3")
    places = Places(python="/venv/bin/python3")
    host.put("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    assert found(host, places) == ()
    host.put("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n")
    assert [row.version for row in found(host, places)] == ["2.14.3"]


def test_lib64_of_a_virtual_environment_is_the_same_directory(node: MakeNode) -> None:
    host = node()
    host.nccl("/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "2.14.3")
    Path(host.path("/venv"), "lib64").symlink_to("lib")
    assert len(found(host, Places(python="/venv/bin/python3"))) == 1


def test_a_file_that_does_not_say_its_version_is_there_all_the_same(node: MakeNode) -> None:
    host = node()
    host.put(LOCAL, b"\x7fELF of somebody else")
    host.ldconfig()
    assert found(host) == (Nccl(LOCAL, None, "site"),)


def test_the_facts_have_them(node: MakeNode) -> None:
    host = node()
    host.nccl(SYSTEM, "2.16.5")
    host.install("libnccl2", "2.16.5-1+cuda11.8", SYSTEM)
    host.ldconfig()
    facts = json.loads(json.dumps(observe_facts(host)))
    assert facts["nccl_libraries"] == [{"path": SYSTEM, "version": "2.16.5", "origin": "package"}]
