# SPDX-License-Identifier: GPL-3.0-or-later
"""Who pauses whom on fabrics of which the answer is known, because they were built with it; and the exports that say it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import End
from railwright.switch_check import Unusable
from railwright.switch_pauses import Cables, Counters, begins, circles, egress, grown, joined, pauses, rails_of, read
from verb_said import Said, said_by

# node1, node2 on leaf1; node3, node4 on leaf2; both leaves on spine1.
PLAN = {f"node{at}": {"rail0": End(f"leaf{(at + 1) // 2}", f"Ethernet{4 * at}")} for at in (1, 2, 3, 4)}
UP = [(End("leaf1", "Ethernet64"), End("spine1", "Ethernet0")), (End("leaf2", "Ethernet64"), End("spine1", "Ethernet4"))]
QUIET = Counters(0, 0, 0, 0, 0)
Told = dict[str, dict[str, Counters]]
Way = tuple[str, str, int]


def where() -> dict[str, tuple[str, str]]:
    """Of each cable, by `one>other` both ways: the two places."""
    ends = [(f"{node} rail0", str(end)) for node, own in PLAN.items() for end in own.values()] + [(str(one), str(two)) for one, two in UP]
    return {f"{one.split()[0]}>{two.split()[0]}": (one, two) for pair in ends for one, two in (pair, pair[::-1])}


def fabric(*ways: Way, marks: Mapping[str, Counters] = {}) -> tuple[Told, dict[tuple[str, str], Counters]]:
    """What every switch and every rail counts where these pause those, and nobody else anybody."""
    told = {place: QUIET for pair in where().values() for place in pair} | dict(marks)
    for who, whom, frames in ways:
        one, other = where()[f"{who}>{whom}"]
        told[one] = told[one]._replace(pauses_out=frames)
        told[other] = told[other]._replace(pauses_in=frames)
    switches: Told = {name: {} for name in ("leaf1", "leaf2", "spine1")}
    for place, row in told.items():
        name, port = place.split()
        if name in switches:
            switches[name][port] = row
    return switches, {(place.split()[0], "rail0"): row for place, row in told.items() if place.startswith("node")}


def cables(*ways: Way, marks: Mapping[str, Counters] = {}) -> Cables:
    switches, rails = fabric(*ways, marks=marks)
    return joined(switches, PLAN, UP, rails)


INCAST: Sequence[Way] = (("node4", "leaf2", 5000), ("leaf2", "node3", 900), ("leaf2", "spine1", 4000), ("spine1", "leaf1", 3000),
                         ("leaf1", "node1", 2000), ("leaf1", "node2", 1000))  # fmt: skip


def began(found: Cables) -> list[tuple[str, str, list[str]]]:
    return begins(pauses(found), egress(found))


def test_an_incast_to_one_slow_host_names_it_and_no_other() -> None:
    found = cables(*INCAST)
    assert began(found) == [("node4", "host", ["leaf2 Ethernet16"])]
    assert [(one.who, one.whom, one.sent, one.got, one.odd) for one in pauses(found)] == [
        (who, whom, frames, frames, False) for who, whom, frames in sorted(INCAST, key=lambda way: -way[2])]
    assert circles(pauses(found)) == []


def test_a_slow_host_that_is_paused_too_is_named_all_the_same() -> None:
    found = cables(*INCAST, ("leaf2", "node4", 700))
    assert began(found) == [("node4", "host", ["leaf2 Ethernet16"])]
    assert circles(pauses(found)) == [], "a host forwards nothing, so no circle goes through it"


def test_a_quiet_fabric_says_nothing() -> None:
    found = cables()
    assert (pauses(found), egress(found), began(found), circles(pauses(found))) == ([], [], [], [])


def test_marks_without_pauses_name_the_port_that_they_leave_by() -> None:
    found = cables(marks={"leaf2 Ethernet12": QUIET._replace(marks=70), "leaf1 Ethernet4": QUIET._replace(drops_in=5)})
    assert [(one.place, to.place) for one, to in egress(found)] == [("leaf2 Ethernet12", "node3 rail0")]
    assert began(found) == [("leaf2", "switch", ["leaf2 Ethernet12"])]


def test_a_switch_that_pauses_and_is_not_paused_is_named_by_its_ports() -> None:
    """Two senders, one receiver that is not slow: the leaf's port to it is too narrow."""
    found = cables(("leaf1", "node1", 50), ("leaf1", "spine1", 60), marks={"leaf1 Ethernet8": QUIET._replace(drops_out=9)})
    assert began(found) == [("leaf1", "switch", ["leaf1 Ethernet8"])]
    paused = cables(*INCAST, marks={"leaf1 Ethernet64": QUIET._replace(marks=9)})
    assert [who for who, _kind, _ports in began(paused)] == ["node4"], "who is paused has to mark: it begins elsewhere"


def test_a_circle_is_said_as_a_circle() -> None:
    ends = {name: {"Ethernet0": QUIET._replace(pauses_out=9), "Ethernet4": QUIET._replace(pauses_in=9)} for name in "cab"}
    links = [(End(one, "Ethernet0"), End(two, "Ethernet4")) for one, two in ("ab", "bc", "ca")]
    found = joined(ends, {}, links, {})
    assert circles(pauses(found)) == [["a", "b", "c", "a"]]
    assert began(found) == []
    assert circles(pauses(found[:2])) == []


def test_two_circles_and_a_tail_that_is_in_none() -> None:
    ways = ("ab", "ba", "bc", "cd", "dc", "de")
    told: Told = {name: {} for name in "abcde"}
    for one, two in ways:
        told[one][f"out{two}"], told[two][f"in{one}"] = QUIET._replace(pauses_out=1), QUIET._replace(pauses_in=1)
    links = [(End(one, f"out{two}"), End(two, f"in{one}")) for one, two in ways]
    assert circles(pauses(joined(told, {}, links, {}))) == [["a", "b", "a"], ["c", "d", "c"]]


def test_both_ends_that_differ_by_more_than_a_half_are_odd() -> None:
    told = {"leaf1": {"Ethernet4": QUIET._replace(pauses_in=1000)}}
    for sent, odd in ((499, True), (500, False), (1000, False), (2000, False), (2001, True), (0, True), (None, False)):
        rails = {("node1", "rail0"): Counters(0, sent)}
        (one,) = pauses(joined(told, {"node1": PLAN["node1"]}, [], rails))
        assert (one.who, one.sent, one.got, one.odd) == ("node1", sent, 1000, odd)


def test_what_nobody_named_and_what_was_not_read_is_said_to_be_so() -> None:
    told = {"leaf1": {"Ethernet64": QUIET._replace(pauses_in=7, pauses_out=3)}}
    behind = "behind leaf1 Ethernet64"
    assert began(joined(told, {}, [], {})) == [(behind, "unknown", ["leaf1 Ethernet64"])]
    named = joined(told, {}, [(End("leaf1.example.net", "Eth64"), End("spine1", "Ethernet0"))], {})
    assert [(one.who, one.whom_at) for one in pauses(named)] == [("spine1", "leaf1 Ethernet64"), ("leaf1", "spine1 Ethernet0")]
    told["leaf1"]["Ethernet64"] = QUIET._replace(pauses_in=7)
    assert began(joined(told, {}, [(End("leaf1", "Ethernet64"), End("spine1", "Ethernet0"))], {})) == [("spine1", "unread switch", [])]


def test_a_port_with_two_cables_is_refused() -> None:
    with pytest.raises(ValueError, match="leaf1 Ethernet4 has two cables"):
        joined(fabric()[0], PLAN, [(End("leaf1", "Eth4"), End("spine1", "Ethernet0"))], {})


def test_a_reset_and_a_port_of_one_export_are_unknown() -> None:
    before = {"a": Counters(10, 5, 0, 0, 3), "b": Counters(1, 1), "gone": Counters(0, 0)}
    found, unknown = grown(before, {"a": Counters(4, 50, 0, 0, 9), "b": Counters(1, 4), "new": Counters(9, 9)})
    assert found == {"a": Counters(), "b": Counters(0, 3), "gone": Counters(), "new": Counters()}
    assert unknown == {"a": "a counter went backwards: it was reset in between", "gone": "only in the earlier export",
                       "new": "only in the later export"}  # fmt: skip


def sonic(ports: Mapping[str, Counters], priority: int = 3) -> str:
    """A dump by sonic-db-dump; other priorities count too."""
    names = {port: f"oid:0x10000000000{at:02x}" for at, port in enumerate(ports)}
    rows: dict[str, Any] = {"COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": names}}
    for port, row in ports.items():
        value = {f"SAI_PORT_STAT_PFC_{at}_{way}X_PKTS": "77" for at in range(8) for way in "RT"}
        for name, number in zip((f"PFC_{priority}_RX_PKTS", f"PFC_{priority}_TX_PKTS", "IF_IN_DISCARDS", "IF_OUT_DISCARDS",
                                 "ECN_MARKED_PACKETS"), row, strict=True):  # fmt: skip
            value[f"SAI_PORT_STAT_{name}"] = "N/A" if number is None else str(number)
        rows[f"COUNTERS:{names[port]}"] = {"expireat": 0.0, "ttl": -0.001, "type": "hash", "value": value}
    return json.dumps(rows)


def eos(ports: Mapping[str, Counters]) -> str:
    return json.dumps({"interfaceCounters": {port: {"rxFrames": row.pauses_in, "txFrames": row.pauses_out} for port, row in ports.items()}})


def nxos(ports: Mapping[str, Counters]) -> str:
    line = "=" * 60 + "\n"
    rows = "".join(f"{port:18} {'Auto On  (8)' if at else 'On   Off'}   {row.pauses_in}  {row.pauses_out}\n"
                   for at, (port, row) in enumerate(ports.items()))
    return f"leaf1# show interface priority-flow-control\n{line}Port               Mode Oper(VL bmap)  RxPPP      TxPPP\n{line}\n{rows}"


FORMS = {"sonic": sonic, "eos": eos, "nxos": nxos}


@pytest.mark.parametrize("os", FORMS)
def test_every_platform_says_its_pauses(os: str) -> None:
    ports = {"Ethernet1/1": Counters(4088353, 1890, 1, 2, 3), "Ethernet1/2": Counters(0, 12, 0, 0, 0)}
    told = {port: row if os == "sonic" else Counters(*row[:2]) for port, row in ports.items()}
    assert read(os, FORMS[os](ports), 3, "f") == told
    if os == "sonic":
        assert read(os, sonic(ports), 4, "f")["Ethernet1/1"][:2] == (77, 77), "only the priority that was asked for"


def test_marks_are_those_of_the_queue_of_the_priority() -> None:
    """SONiC counts them there; where a queue has none, the port's own count."""
    rows = json.loads(sonic({"Ethernet0": QUIET, "Ethernet4": QUIET._replace(marks=6), "Ethernet8": QUIET._replace(marks=None)}))
    queues = {f"Ethernet{port}:{queue}": f"oid:0x15{port}{queue}" for port in (0, 4, 8) for queue in (3, 4)}
    rows["COUNTERS_QUEUE_NAME_MAP"] = {"type": "hash", "value": queues}
    for name, marks in (("Ethernet0:3", "40"), ("Ethernet0:4", "50"), ("Ethernet4:3", "N/A")):
        rows[f"COUNTERS:{queues[name]}"] = {"type": "hash", "value": {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": marks}}
    for priority, marks in ((3, [40, 6, None]), (4, [50, 6, None])):
        assert [row.marks for row in read("sonic", json.dumps(rows), priority, "f").values()] == marks
    rows["COUNTERS_QUEUE_NAME_MAP"]["value"]["Ethernet0:3"] = ["no oid"]
    assert read("sonic", json.dumps(rows), 3, "f")["Ethernet0"].marks == 0


def test_what_is_no_number_is_unknown() -> None:
    text = sonic({"Ethernet0": QUIET}).replace('"SAI_PORT_STAT_PFC_3_RX_PKTS": "0"', '"SAI_PORT_STAT_PFC_3_RX_PKTS": "-5"')
    assert read("sonic", text, 3, "f") == {"Ethernet0": QUIET._replace(pauses_in=None)}
    assert read("eos", '{"interfaceCounters": {"Ethernet1": [], "Ethernet2": {"rxFrames": true}}}', 3, "f") == {
        "Ethernet1": Counters(), "Ethernet2": Counters()}


@pytest.mark.parametrize("os", FORMS)
@pytest.mark.parametrize("text", ["", "{}", "[]", '{"COUNTERS_PORT_NAME_MAP": 5, "interfaceCounters": [1]}', "\x00\x01RxPPP\ufffd",
                                  "[" * 100_000, '{"PORT": {"Ethernet0": {}}}', "Port Mode Oper RxPPP TxPPP\nEthernet1/1 Auto On 5 6"])
def test_what_is_no_export_is_said_with_its_file(os: str, text: str) -> None:
    with pytest.raises(Unusable, match="f: is not what `"):
        read(os, text, 3, "f")
    others = [form({"Ethernet0": QUIET}) for name, form in FORMS.items() if name != os]
    for other in (*others, FORMS[os]({"Ethernet0": QUIET})[:-9]):
        with pytest.raises(Unusable, match="f: is not what `"):
            read(os, other, 3, "f")


def test_more_ports_than_a_switch_has_are_refused() -> None:
    for os, form in FORMS.items():
        with pytest.raises(Unusable, match="has 3000 ports, and no switch has more than 2048"):
            read(os, form({f"Ethernet{at}": QUIET for at in range(3000)}), 3, "f")


def test_rates_are_summed_and_what_was_never_read_is_unknown() -> None:
    times = ["1", "2", "3"]

    def document(**rates: tuple[float | None, float | None]) -> dict[str, Any]:
        rails = [{"rail": name, "pauses_in": one, "pauses_out": two} for name, (one, two) in rates.items()]
        return {"at": times.pop(0), "nodes": {"n1": {"rails": rails}}}

    found = rails_of([document(rail0=(None, None), rail1=(None, 1.0)), document(rail0=(None, 4.4)), document(rail0=(None, 2.2))])
    assert found == ({("n1", "rail0"): Counters(None, 7), ("n1", "rail1"): Counters(None, 1)}, ("1", "3"))
    times[:] = ["7"]
    assert (rails_of([document(rail0=(None, 1.0))])[1], rails_of([])) == (("7", "7"), ({}, ()))


HOSTS = "".join(f"        node{at}: {{rdma_cabling: {{rail0: {{switch: leaf{(at + 1) // 2}, port: Ethernet{4 * at}}}}}}}\n"
                for at in (1, 2, 3, 4))
SITE = f"""
all:
  children:
    rdma:
      vars:
        {{rdma_fabric: roce, rdma_mtu: 9000, network_manage_addresses: false,
         rdma_rails: [{{name: rail0, match: {{pci: '0000:1a:00.0'}}}}]}}
      hosts:
{HOSTS}"""
RAIL = {"hca": "mlx5_0", "port": 1, "netdev": "eth0", "state": "ACTIVE", "rate_gbps": 400.0, "out_gbps": 1.0, "in_gbps": 1.0,
        "out_packets": 1.0, "in_packets": 1.0, "waits": None, "retransmissions": 0.0, "out_of_sequence": 0.0, "cnp_out": 0.0,
        "cnp_in": 0.0, "marks": []}  # fmt: skip


def write(*ways: Way, marks: Mapping[str, Counters] = {}) -> None:
    """Exports before and after, and a recording of ten seconds."""
    switches, rails = fabric(*ways, marks=marks)
    for name, ports in switches.items():
        start = {port: Counters(*(100 for _way in row)) for port, row in ports.items()}
        end = {port: Counters(*(100 + (value or 0) for value in row)) for port, row in ports.items()}
        Path(f"{name}.before").write_text(sonic(start), encoding="utf-8")
        Path(f"{name}.after").write_text(sonic(end), encoding="utf-8")
    nodes = {node: {"status": "ok", "message": "", "gpus": [], "gpus_unknown": None, "rails": [
        RAIL | {"rail": rail, "pauses_in": (row.pauses_in or 0) / 10, "pauses_out": (row.pauses_out or 0) / 10}]}
        for (node, rail), row in rails.items()}
    lines = [json.dumps({"at": f"2026-11-28T12:00:{at:02}+00:00", "nodes": nodes}) + "\n" for at in range(10)]
    Path("hosts.jsonl").write_text("".join(lines), encoding="utf-8")


SWITCHES = [word for name in ("leaf1", "leaf2", "spine1") for word in ("--switch", f"{name}=sonic:{name}.before:{name}.after")]
LINKS = ["--link", "leaf1:Ethernet64=spine1:Ethernet0", "--link", "leaf2:Ethernet64=spine1:Ethernet4"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("site.yml").write_text(SITE, encoding="utf-8")
    write(*INCAST)
    return tmp_path


def call(capfd: pytest.CaptureFixture[str], *words: str) -> Said:
    return said_by(capfd, "switch", "pauses", "-i", "site.yml", *words)


def test_the_verb_names_the_slow_host(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = call(capfd, *SWITCHES, *LINKS, "--hosts", "hosts.jsonl")
    assert (ran.code, ran.err) == (1, "")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "node4 rail0 leaf2 Ethernet16 5000 5000" in lines
    assert lines[-1] == "begins node4: a slow receiver, it pauses leaf2 Ethernet16"
    assert sum(line.startswith(("begins", "circle", "unknown")) for line in lines) == 1
    assert lines[0] == "hosts 2026-11-28T12:00:00+00:00 to 2026-11-28T12:00:09+00:00"
    assert max(map(len, ran.out.splitlines())) <= 80
    found = json.loads(call(capfd, *SWITCHES, *LINKS, "--hosts", "hosts.jsonl", "--format", "json").out)
    assert found["begins"] == [{"who": "node4", "kind": "host", "places": ["leaf2 Ethernet16"]}]
    assert (found["priority"], found["circles"], found["unknown"]) == (3, [], {})
    assert found["summary"] == {"ports": 8, "pauses": 6, "exit_code": 1}
    assert found["recorded"] == ["2026-11-28T12:00:00+00:00", "2026-11-28T12:00:09+00:00"]
    assert json.loads(call(capfd, *SWITCHES, *LINKS, "--format", "json").out)["recorded"] == []


def test_without_links_and_hosts_it_says_what_is_not_known(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = call(capfd, *SWITCHES[:2], *SWITCHES[4:])
    assert ran.code == 1
    assert "begins behind leaf1 Ethernet64: nobody named it; it pauses leaf1 Ethernet64" in ran.out.splitlines()
    ran = call(capfd, *SWITCHES[:2])
    assert "unknown" not in ran.out, "leaf2 was not given: its rails are no fault of these exports"


def test_a_quiet_fabric_is_one_line(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write()
    ran = call(capfd, *SWITCHES, *LINKS, "--hosts", "hosts.jsonl")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["nobody pauses anybody, on 8 ports"])
    assert call(capfd, *SWITCHES, *LINKS).out == "nobody pauses anybody, on 8 ports\n"


def test_ports_that_nobody_knows_are_no_quiet_ones(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write()
    Path("leaf1.after").write_text(sonic({"Ethernet4": QUIET, "Ethernet8": Counters(*[100] * 5)}), encoding="utf-8")
    ran = call(capfd, *SWITCHES, *LINKS)
    assert (ran.code, ran.out.splitlines()) == (1, [
        "unknown leaf1 Ethernet4: a counter went backwards: it was reset in between",
        "unknown leaf1 Ethernet64: only in the earlier export",
        "nobody pauses anybody, on 6 ports"])  # fmt: skip
    assert json.loads(call(capfd, *SWITCHES, *LINKS, "--format", "json").out)["summary"]["ports"] == 6


def test_exports_of_which_no_port_is_known_are_no_pass(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The later one first: whatever counted went backwards."""
    for name in ("leaf1", "leaf2", "spine1"):
        Path(f"{name}.after").write_text(sonic({port: Counters(*[200] * 5) for port in fabric()[0][name]}), encoding="utf-8")
    ran = call(capfd, *(f"--switch={name}=sonic:{name}.after:{name}.before" for name in ("leaf1", "leaf2", "spine1")), *LINKS)
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "no port is known")
    assert "nobody" not in ran.out


def test_marks_alone_are_said_and_end_with_0(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(marks={"leaf1 Ethernet8": QUIET._replace(marks=12)})
    ran = call(capfd, *SWITCHES, *LINKS)
    assert ran.code == 0
    assert "begins leaf1: what leaves it by leaf1 Ethernet8" in ran.out.splitlines()
    assert "leaf1 Ethernet8 node2 rail0 12 0" in [" ".join(line.split()) for line in ran.out.splitlines()]


def test_a_reset_is_said_and_a_switch_is_not_called_sure(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(("leaf1", "node1", 40))
    told = fabric()[0]["leaf1"]
    Path("leaf1.after").write_text(sonic(told | {"Ethernet4": Counters(100, 140, 100, 100, 100), "Ethernet64": QUIET}), encoding="utf-8")
    ran = call(capfd, *SWITCHES, *LINKS)
    assert "unknown leaf1 Ethernet8, leaf1 Ethernet64: a counter went backwards: it was reset in between" in ran.out.splitlines()
    assert "begins leaf1: what leaves it by an unknown port; not all of its ports are known" in ran.out.splitlines()


def test_a_circle_is_a_line(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(("leaf1", "spine1", 5), ("spine1", "leaf1", 5))
    ran = call(capfd, *SWITCHES, *LINKS)
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "circle leaf1 pauses spine1 pauses leaf1")


def test_a_recording_that_says_otherwise_is_odd(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("hosts.jsonl").write_text("".join(Path("hosts.jsonl").read_text().splitlines(keepends=True)[:4]), encoding="utf-8")
    lines = [" ".join(line.split()) for line in call(capfd, *SWITCHES, *LINKS, "--hosts", "hosts.jsonl").out.splitlines()]
    assert "node4 rail0 leaf2 Ethernet16 2000 5000 odd" in lines
    assert "leaf2 Ethernet64 spine1 Ethernet4 4000 4000" in lines


def test_what_a_recording_does_not_have_is_unknown(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("hosts.jsonl").write_text(Path("hosts.jsonl").read_text().replace("node2", "node9"), encoding="utf-8")
    ran = call(capfd, *SWITCHES, *LINKS, "--hosts", "hosts.jsonl")
    assert "unknown node2 rail0: its pauses are not in hosts.jsonl" in ran.out.splitlines()


BAD = {
    "torn": (sonic({"Ethernet0": QUIET})[:200].encode(), "is not what `sonic-db-dump -n COUNTERS_DB -y` prints: no JSON"),
    "other": (nxos({"Ethernet1/1": QUIET}).encode(), "is not what `sonic-db-dump"), "empty": (b"", "is not what `sonic-db-dump"),
    "binary": (bytes(range(256)) * 9, "is not what `sonic-db-dump"),
    "large": (b" " * (33 << 20), "is larger than any export: more than 32 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_exports_end_with_one_line(site: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    data, why = BAD[name]
    Path(name).write_bytes(data)
    for words in (f"leaf1=sonic:{name}:leaf1.after", f"leaf1=sonic:leaf1.before:{name}"):
        ran = call(capfd, "--switch", words)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (64, "", 1)
        assert f"error: {name}: {why}" in ran.err


@pytest.mark.parametrize(("words", "why"), [
    (["--switch", "leaf1=sonic:none:leaf1.after"], "none: No such file"), (["--switch", "leaf1=nvue:a:b"], "with OS of sonic, eos, nxos"),
    (["--switch", "leaf1=sonic:leaf1.before:./leaf1.before"], "BEFORE and AFTER are one file"),
    (["--switch", "leaf1=sonic:leaf1.before:also"], "BEFORE and AFTER are one file"),
    (["--switch", "leaf1=sonic:leaf1.before"], "allowed: NAME=OS:BEFORE:AFTER"), (["--switch", "leaf1"], "allowed: NAME=OS:BEFORE:AFTER"),
    ([*SWITCHES[:2], "--switch", "leaf1.example.net=sonic:a:b"], "once for each switch"),
    ([*SWITCHES, "--link", "leaf1:Ethernet64"], "--link leaf1:Ethernet64: allowed: SWITCH:PORT=SWITCH:PORT"),
    ([*SWITCHES, "--link", "leaf1:Ethernet64=leaf1:Ethernet4"], "of two switches"),
    ([*SWITCHES, "--link", "leaf1:Ethernet4=spine1:Ethernet0"], "leaf1 Ethernet4 has two cables"),
    ([*SWITCHES, "--hosts", "none"], "--hosts none: No such file"),
    ([*SWITCHES, "--hosts", "leaf1.after"], "--hosts leaf1.after: line 1: "),
    ([*SWITCHES, "--hosts", "void"], "--hosts void: has no rail"),
])  # fmt: skip
def test_bad_words_end_with_one_line(site: Path, capfd: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    Path("void").touch()
    Path("also").symlink_to("leaf1.before")
    ran = call(capfd, *words)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (64, "", 1)
    assert why in ran.err
