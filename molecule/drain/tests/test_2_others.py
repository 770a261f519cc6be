# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have done to a node stays theirs, and what Slurm answers when it cannot or may not."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand
from drain_steps import NODES, RUN, Slurm
from launching import CORE, STORE, core

REASON = f"railwright upgrade {RUN}"
NASTY = "it's \"quoted\" [x@y] State=IDLE ThreadsPerCore=1 Reason=foo; $(id)"


def test_a_node_that_somebody_drained_keeps_their_reason_and_stays(slurm: Slurm) -> None:
    slurm.say("scontrol", "update", "nodename=node1", "state=drain", f"reason={NASTY}")
    found = slurm.step("drain")
    assert found.failed == {}
    assert (found.drains["node1"]["by"], found.drains["node1"]["reason"], found.drains["node2"]["by"]) == ("other", NASTY, "us")
    back = slurm.step("undrain")
    assert back.failed == {}
    assert (slurm.state("node1"), slurm.state("node2")) == ("IDLE+DRAIN", "IDLE")
    assert NASTY in slurm.say("scontrol", "--oneliner", "show", "node", "node1")


def test_a_node_that_was_down_is_closed_and_stays_so(slurm: Slurm) -> None:
    slurm.say("scontrol", "update", "nodename=node1", "state=down", "reason=bad DIMM")
    assert slurm.step("scheduler").drains["node1"]["state"] == "down"
    found = slurm.step("drain")
    assert found.failed == {}
    assert (found.drains["node1"]["done"], found.drains["node1"]["by"]) == (True, "other")
    assert (slurm.state("node1"), slurm.reason("node1")) == ("DOWN+DRAIN", "bad DIMM")
    assert slurm.step("undrain").failed == {}
    assert slurm.state("node1") == "DOWN+DRAIN"


def test_our_drain_outlives_a_reboot_that_slurm_did_not_expect(slurm: Slurm) -> None:
    """slurmd -b says what it says after a reboot. ReturnToService is 0: Slurm leaves the node down, and its reason is still ours."""
    slurm.step("drain", limit="node1")
    slurm.on("node1", "systemctl", "stop", "slurmd")
    slurm.until(lambda: "DOWN" in slurm.state("node1") and not slurm.answers("node1"), "slurmctld misses the node")
    waits = slurm.step("undrain", limit="node1", __upgrade_undrain_s=2)
    assert "node1 was to take jobs again and is down at the scheduler" in waits.failed["node1"]
    assert "DRAIN" in slurm.state("node1"), "it does not answer: no job must come to it"
    slurm.on("node1", "slurmd", "-b")
    try:
        slurm.until(lambda: slurm.state("node1") == "DOWN+DRAIN", "the node is back, and down")
        assert slurm.reason("node1") == REASON
        assert slurm.step("drained", limit="node1").failed == {}, "the upgrade goes on with it"
        back = slurm.step("undrain", limit="node1")
        assert (back.failed, back.drains["node1"]["state"]) == ({}, "available")
    finally:
        slurm.on("node1", "pkill", "-x", "slurmd", check=False)


def test_a_reservation_is_none_of_our_business(slurm: Slurm) -> None:
    slurm.say("scontrol", "create", "reservation", "reservationname=window", "starttime=now", "duration=60", "nodes=node1", "flags=maint",
              "users=root")
    try:
        slurm.until(lambda: "MAINT" in slurm.state("node1"), "the window is open")
        assert slurm.step("scheduler").drains["node1"]["state"] == "available"
        found = slurm.step("drain", limit="node1")
        assert (found.failed, found.drains["node1"]["state"]) == ({}, "drained")
        assert slurm.step("undrain", limit="node1").failed == {}
        assert "MAINT" in slurm.state("node1")
    finally:
        slurm.say("scontrol", "delete", "reservationname=window")


def test_slurmctld_is_away(slurm: Slurm) -> None:
    slurm.on("controller", "systemctl", "stop", "slurmctld")
    found = slurm.step("drain")
    assert "Unable to contact slurm controller" in found.failed["node1"]
    assert "the scheduler did not answer for node2: scontrol failed" in found.failed["node2"]
    slurm.on("controller", "systemctl", "start", "slurmctld")
    slurm.until(lambda: slurm.on("controller", "scontrol", "ping", check=False).returncode == 0, "slurmctld answers")
    assert [slurm.reason(node) for node in NODES] == ["", ""]


def test_a_name_that_slurm_does_not_have(slurm: Slurm) -> None:
    found = slurm.step("scheduler", limit="node1", upgrade_node_name="gpu1")
    assert found.failed == {"node1": "Slurm has no node gpu1; it has node1, node2. Set upgrade_node_name to the node's name there, "
                                     "or upgrade_scheduler: none"}
    found = slurm.step("drain", limit="node1", upgrade_node_name="gpu1")
    assert "Slurm has no node gpu1" in found.failed["node1"]
    assert [slurm.reason(node) for node in NODES] == ["", ""]


def test_names_are_data_and_rights_are_slurms(slurm: Slurm) -> None:
    """The core alone, as root and as alice: what the inventory's rules would refuse before gets to it here."""
    argv = ("python3", "-c", STORE.format(place=str(Path(CORE).parent), path=CORE))
    slurm.cluster.container("controller").run(*argv, stdin=base64.b64encode(core()).decode())
    ask = ("import sys, json; sys.path.insert(0, sys.argv[1]); from module_utils.scheduler.slurm import drain; "
           "from module_utils.host.host import Host; found = drain(Host(), sys.argv[3:], sys.argv[2])[0]; "
           "print(json.dumps([[item.message, item.state] for item in found]))")
    names = ("node[1-2]", "node1,node2", "node1 State=DOWN", "--help", "ALL")
    answers = json.loads(slurm.say("python3", "-c", ask, CORE, REASON, *names))
    assert [state for _message, state in answers] == ["unknown"] * len(names)
    assert [slurm.state(node) for node in NODES] == ["IDLE", "IDLE"]
    [[message, state]] = json.loads(slurm.say("runuser", "-u", "alice", "--", "python3", "-c", ask, CORE, REASON, "node1"))
    assert state == "available"
    assert message.startswith("Slurm refused State=DRAIN for node1: slurm_update error: Invalid user id; it ran as the user that Ansible")


def test_host_lists_are_read_as_slurm_reads_them(slurm: Slurm) -> None:
    for text in ("gpu[001-003,7]", "rack[0-1]n[08-11],x,y3", "a1,b[2-3]c[4,6]"):
        assert expand(text) == slurm.say("scontrol", "show", "hostnames", text).split()
