# SPDX-License-Identifier: GPL-3.0-or-later
"""Which libnccl a program would load, and its version from the file itself. The text's form and place were read in a real wheel."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe import nccl_libraries as libraries
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import LoadableNccl, library_version, nccl_libraries
from nccl_files import elf

MakeNode = Callable[[dict[str, bytes]], TreeHost]
LIB = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
CACHE = b"""3 libs found in cache `/etc/ld.so.cache'
\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so.2
\tlibnccl.so.2 (libc6) => /usr/lib/i386-linux-gnu/libnccl.so.2
\tlibnccl.so (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so
\tlibnccl-net.so (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl-net.so
"""


def test_the_loaders_library_precedes_prefixes(make_node: MakeNode) -> None:
    host = make_node({
        "cmd/ldconfig_-p": CACHE, LIB: elf("2.26.2", "12.8"), "/usr/lib/i386-linux-gnu/libnccl.so.2": elf("2.1.0"),
        "/opt/railwright/nccl/2.9.9-cu12/lib/libnccl.so.2": elf("2.9.9", "12.2"),
        "/opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2": elf("2.30.7"),
        "/opt/railwright/nccl/.2.31.0-cu13.part/lib/libnccl.so.2": elf("2.31.0"),
    })
    found = nccl_libraries(host)
    assert found == (
        LoadableNccl(LIB, "2.26.2", "ldconfig"),
        LoadableNccl("/opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2", "2.30.7", "prefix"),
        LoadableNccl("/opt/railwright/nccl/2.9.9-cu12/lib/libnccl.so.2", "2.9.9", "prefix"),
    )


def test_the_release_that_the_inventory_asks_for_comes_before_newer_ones(make_node: MakeNode) -> None:
    host = make_node({f"/opt/railwright/nccl/{version}-cu13/lib/libnccl.so.2": elf(version) for version in ("2.29.7", "2.30.7", "2.31.2")})
    Path(host.path("/opt/railwright/nccl"), "current").symlink_to("2.30.7-cu13")
    assert [row.version for row in nccl_libraries(host)] == ["2.30.7", "2.31.2", "2.29.7"]


def test_what_the_cache_names_and_nobody_has_is_not_there(make_node: MakeNode) -> None:
    assert nccl_libraries(make_node({"cmd/ldconfig_-p": CACHE})) == ()


def test_a_node_without_ldconfig_has_what_lies_in_the_prefix(make_node: MakeNode) -> None:
    host = make_node({"/srv/nccl/2.30.7-cu13/lib/libnccl.so.2": elf("2.30.7")})
    assert [row.path for row in nccl_libraries(host, prefix="/srv/nccl")] == ["/srv/nccl/2.30.7-cu13/lib/libnccl.so.2"]


def test_the_name_of_a_file_is_not_its_version(make_node: MakeNode) -> None:
    host = make_node({"/lib/libnccl.so.2.99.9": elf("2.18.3", "12.1")})
    Path(host.path("/lib"), "libnccl.so.2").symlink_to("libnccl.so.2.99.9")
    assert library_version(host, "/lib/libnccl.so.2") == ("2.18.3", "12.1")


@pytest.mark.parametrize("content", [b"", b"NCCL version 2.30.7+cuda13.3\0", b"\x7fELF no version at all",
                                     b"\x7fELF NCCL version 2.30.7 compiled with CUDA 13.3\n\0", b"\x7fELF NCCL version 2.30.7+cuda13.3"])
def test_a_file_that_is_no_build_of_nccl_has_no_version(make_node: MakeNode, content: bytes) -> None:
    assert library_version(make_node({"/lib/x": content}), "/lib/x") == (None, None)


def test_a_text_far_behind_is_found_too(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "LIMITS", (64, 4096))
    host = make_node({"/lib/far": b"\x7fELF" + bytes(1000) + elf("2.29.2"), "/lib/beyond": b"\x7fELF" + bytes(9000)})
    assert library_version(host, "/lib/far") == ("2.29.2", "13.3")
    assert library_version(host, "/lib/beyond") == (None, None)
