# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's topology files: what a run wrote comes back in NCCL's own words only; what NCCL is told to read must be readable to it.

The texts are written from NCCL 2.30.7's reader and writer (src/graph/xml.cc, src/graph/search.cc), not recorded.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.dumps import (
    GRAPHS,
    TOPOLOGY,
    Unreadable,
    collected,
    judge_topo_files,
    read_file,
    rendered,
)

TOPO = """\
<system version="1">
  <cpu host_hash="0x1a2b" numaid="0" affinity="000000ff,ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:19:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:06:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" latency="0.000000" speed="400000" port="1" guid="0x5e7ca70003e1a258" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
"""
GRAPH = """\
<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="48" speedinter="48" latencyinter="0" typeintra="NVL" typeinter="PIX">
    <channel>
      <net dev="0"/>
      <gpu dev="0" rank="0"/>
      <net dev="0"/>
    </channel>
  </graph>
</graphs>
"""


@pytest.fixture
def host(tmp_path: Path) -> TreeHost:
    for directory in ("run", "etc", "opt", "root"):
        (tmp_path / directory).mkdir()
    return TreeHost(str(tmp_path))


def put(host: TreeHost, path: str, text: str) -> None:
    Path(host.root + path).write_bytes(text.encode())


def test_what_a_run_wrote_comes_back_as_nccl_lays_it_out(host: TreeHost) -> None:
    put(host, "/run/topo.xml", TOPO)
    put(host, "/run/graph.xml", GRAPH)
    assert collected(host, "/run/topo.xml", "/run/graph.xml") == {"nccl_topo": TOPO, "nccl_graph": GRAPH, "notes": []}


def test_a_run_that_wrote_none_is_no_fault(host: TreeHost) -> None:
    assert collected(host, "/run/topo.xml", "/run/graph.xml") == {"nccl_topo": None, "nccl_graph": None, "notes": []}


def test_links_are_not_followed(host: TreeHost) -> None:
    put(host, "/etc/secret", TOPO)
    Path(host.root + "/run/topo.xml").symlink_to("/etc/secret")
    found = collected(host, "/run/topo.xml", "/run/graph.xml")
    assert (found["nccl_topo"], found["notes"]) == (None, ["/run/topo.xml is a link and was not read"])


def test_nothing_but_nccls_vocabulary_comes_back() -> None:
    text = TOPO.replace("<nic>", '<nic onclick="alert(1)" NAME-X="1"><script src="x"><net dev="9"/></script>').replace(
        "mlx5_0", "&lt;b&gt;{{ x }}\x1b[2J").replace("GenuineIntel", "a" * 253)
    found = rendered(read_file(text, TOPOLOGY), TOPOLOGY)
    assert "script" not in found
    assert 'name="?lt;b?gt;?? x ????2J"' in found
    assert not set(found) & set("{}&\x1b")


def test_what_was_rendered_reads_the_same_again() -> None:
    for text, grammar in ((TOPO, TOPOLOGY), (GRAPH, GRAPHS)):
        assert rendered(read_file(text, grammar), grammar) == text


@pytest.mark.parametrize(("text", "words"), [
    ("", "no element <system>"),
    ('<graphs version="1"/>', "no element <system>"),
    ('<system version="2"></system>', "version 1"),
    ("<system></system>", "version 1"),
    ('<?xml version="1.0"?>\n' + TOPO, "line 1: an XML declaration"),
    ("<!DOCTYPE system [<!ENTITY a 'b'>]>\n" + TOPO, "line 1: a document type"),
    (TOPO.replace("  <cpu", "\t<cpu"), "line 2: a tab"),
    (TOPO.replace(' numaid="0"', '\n numaid="0"'), "attributes in several lines"),
    (TOPO.replace('numaid="0"', "numaid=0"), "line 2"),
    (TOPO.replace('numaid="0"', f'numaid="{"0" * 254}"'), "more than 253 characters"),
    (TOPO.replace("</cpu>", "</gpu>"), "closed that is not open"),
    (TOPO.replace("</system>\n", ""), "cut off"),
    ("<!-- \n" + TOPO, "line 1: a comment does not end"),
    (TOPO + "hello", "something where"),
    ('<system version="1">' + "<cpu>" * 70, "within each other"),
    ('<system version="1">' + "<cpu/>" * 20001 + "</system>", "20000 elements"),
    (" " * (1 << 19) + TOPO, "larger than"),
])
def test_what_nccl_does_not_read_says_where_and_why(text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words.replace("<", ".")):
        read_file(text, TOPOLOGY)


def test_what_swells_by_its_indentation_is_not_kept(host: TreeHost) -> None:
    inside = '<system version="1"><cpu>' + "<pci>" * 50 + "<gpu/>" * 9000 + "</pci>" * 50 + "</cpu></system>"
    put(host, "/run/topo.xml", inside)
    found = collected(host, "/run/topo.xml", "/run/graph.xml")
    assert (found["nccl_topo"], found["notes"]) == (None, ["/run/topo.xml: is larger than 524288 bytes"])


@pytest.mark.parametrize("text", [
    "<!-- made by hand -->\n" + TOPO, TOPO.replace("\n", "\r\n"), TOPO.replace('"', "'"), TOPO.replace("/>", " />"), TOPO + "\n\n",
    TOPO.replace("<cpu ", '<future a="1"><deep/></future><cpu '),
], ids=["comment", "crlf", "quotes", "blank", "newlines", "unknown-element"])
def test_what_nccl_reads_though_it_writes_it_otherwise(text: str) -> None:
    assert rendered(read_file(text, TOPOLOGY), TOPOLOGY) == TOPO


def test_cut_off_at_any_character_is_never_a_topology() -> None:
    whole = TOPO.rstrip("\n")
    for end in range(len(whole)):
        with pytest.raises(Unreadable):
            read_file(whole[:end], TOPOLOGY)


@given(st.text(alphabet="<>/ \n\"'=!-?ab1system", max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_file('<system version="1">' + text + "</system>", TOPOLOGY)
    except Unreadable:
        return
    again = rendered(found, TOPOLOGY)
    assert rendered(read_file(again, TOPOLOGY), TOPOLOGY) == again


def statuses(host: TreeHost, environment: dict[str, str], home: str | None = None) -> list[tuple[str, str, str]]:
    return [(item.check, item.status, item.message) for item in judge_topo_files(host, "node1", environment, home)]


def test_no_file_named_no_verdict(host: TreeHost) -> None:
    assert judge_topo_files(host, "node1", {}) == []
    assert judge_topo_files(host, "node1", {"NCCL_TOPO_FILE": ""}) == []


def test_a_file_that_nccl_reads_passes(host: TreeHost) -> None:
    put(host, "/opt/topo.xml", TOPO)
    put(host, "/opt/graph.xml", GRAPH)
    assert statuses(host, {"NCCL_TOPO_FILE": "/opt/topo.xml", "NCCL_GRAPH_FILE": "/opt/graph.xml"}) == [
        ("nccl.topo_file", "pass", "/opt/topo.xml has 9 elements that NCCL reads"),
        ("nccl.topo_file", "pass", "/opt/graph.xml has 6 elements that NCCL reads")]


@pytest.mark.parametrize(("path", "text", "words"), [
    ("/opt/topo.xml", None, "is not there or cannot be read"),
    ("topo.xml", TOPO, "is relative"),
    ("/opt/topo.xml", "<?xml version='1.0'?>" + TOPO, "line 1: an XML declaration"),
    ("/opt/topo.xml", GRAPH, "has no element <system>"),
    ("/opt/topo.xml", TOPO.replace("<nic>", "<nic>" + "<net/>" * 250), "has 259 elements; NCCL takes 256"),
])
def test_a_file_that_nccl_does_not_read_fails(host: TreeHost, path: str, text: str | None, words: str) -> None:
    if text is not None:
        put(host, "/opt/topo.xml", text)
    ((check, status, message),) = statuses(host, {"NCCL_TOPO_FILE": path})
    assert (check, status, words in message) == ("nccl.topo_file", "fail", True), message


def test_who_names_it_first_counts(host: TreeHost) -> None:
    """The environment, then NCCL_CONF_FILE or else ~/.nccl.conf, then /etc/nccl.conf."""
    put(host, "/etc/nccl.conf", "NCCL_TOPO_FILE=/opt/etc.xml\n")
    assert "/opt/etc.xml" in statuses(host, {})[0][2]
    put(host, "/root/.nccl.conf", "# NCCL_TOPO_FILE=/opt/no.xml\nNCCL_TOPO_FILE=/opt/home.xml\nNCCL_TOPO_FILE=/opt/second.xml\n")
    assert "/opt/home.xml" in statuses(host, {}, "/root")[0][2]
    put(host, "/opt/own.conf", "NCCL_TOPO_FILE=/opt/own.xml\n")
    assert "/opt/own.xml" in statuses(host, {"NCCL_CONF_FILE": "/opt/own.conf"}, "/root")[0][2]
    assert "/opt/env.xml" in statuses(host, {"NCCL_TOPO_FILE": "/opt/env.xml"}, "/root")[0][2]


def test_the_topology_that_a_cloud_puts_in_nccls_default_place(host: TreeHost) -> None:
    directory = Path(host.root + "/var/run/nvidia-topologyd")
    directory.mkdir(parents=True)
    (directory / "virtualTopology.xml").write_text(TOPO[:100])
    ((_check, status, message),) = statuses(host, {})
    assert (status, message.startswith("/var/run/nvidia-topologyd/virtualTopology.xml line")) == ("fail", True)
