# SPDX-License-Identifier: GPL-3.0-or-later
"""What a switch would do with each text, by readers of the tests' own (tests/lib/switch_text.py), equals the profile.

The readers are written from documented formats; no switch was at hand.
"""

import subprocess
from pathlib import Path

import pytest
from jinja2 import FileSystemLoader, UndefinedError

import switch_text
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, QosProfile, site_profile
from railwright.cli.switch import SwitchOs
from railwright.switch_hints import PLATFORMS, _environment, hints
from switch_text import READERS, Told

SYSTEMS = ("sonic", "nvue", "onyx", "eos", "nxos")
CNP_CLASS = {"nxos": 7}  # the queue with `priority level 1`


def custom(tc: int, priority: int, lossless: list[int], cnp: tuple[int, int] = (48, 6), ets: tuple[int, ...] = ()) -> QosProfile:
    whole = {"tc": tc, "priority": priority, "lossless": lossless, "cnp_dscp": cnp[0], "cnp_priority": cnp[1], "ets": list(ets)}
    found = site_profile("custom", whole)
    assert found is not None
    return found


PROFILES = {profile.name: profile for profile in QOS_PROFILES} | {
    "mapped elsewhere": custom(106, 5, [5]),
    "two lossless": custom(106, 3, [3, 4]),
    "a share": custom(106, 3, [3], ets=(20, 0, 0, 70, 0, 0, 10, 0)),
    "CNP in another class": custom(138, 4, [4], cnp=(56, 7)),
    "CNP where best effort is": custom(106, 3, [3], cnp=(10, 1)),
    "lossless six": custom(194, 6, [6], cnp=(40, 5)),
    "lossless two": custom(66, 2, [2]),
}


def test_every_platform_is_read() -> None:
    assert set(SYSTEMS) == set(PLATFORMS) == set(SwitchOs) == set(READERS)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_chain_of_the_text_is_the_profile(system: str, name: str) -> None:
    profile = PROFILES[name]
    told = READERS[system](hints(system, profile))
    assert told.trusted
    assert told.classes[profile.dscp] == profile.priority
    assert told.pfc == set(profile.lossless)
    assert told.paused.get(profile.dscp) == profile.priority
    assert profile.dscp in told.marked
    assert profile.dscp not in told.strict
    assert told.classes[profile.cnp_dscp] == CNP_CLASS.get(system, profile.cnp_priority)
    assert profile.cnp_dscp in told.strict
    assert profile.cnp_dscp not in told.paused
    assert told.mtu == (9214 if system == "eos" else 9216)
    assert told.watched
    assert told.saved


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_best_effort_is_neither_paused_nor_first(system: str, name: str) -> None:
    """SONiC sends nearly everything to TC 1 by default, EOS DSCP 0 to 7: a profile that makes 1 lossless must not pause a whole site."""
    told = READERS[system](hints(system, PROFILES[name]))
    assert 0 not in told.paused
    assert 0 not in told.strict


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_share_of_the_profile_is_in_the_text(system: str) -> None:
    told = READERS[system](hints(system, PROFILES["a share"]))
    assert told.share[26] == 70
    told = READERS[system](hints(system, PROFILES["dscp26-prio3"]))
    assert told.share[26] == (15 if system == "sonic" else 50), "of the platform: SONiC's own scheduler.1, half elsewhere"


@pytest.mark.parametrize("name", PROFILES)
def test_sonics_text_is_a_shell_script(name: str) -> None:
    text = "\n".join(hints("sonic", PROFILES[name])) + "\n"
    done = subprocess.run(("bash", "-n"), input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# What a slip of the generator would look like, and that the readers see it. {old: new} on the text of scnet-dscp34-prio4.
SLIPS = {
    "sonic: PFC elsewhere": ("sonic", '"pfc_enable": "4"', '"pfc_enable": "3"'),
    "sonic: lossy group": ("sonic", '"4": "4",\n      "6": "0"', '"4": "0",\n      "6": "0"'),
    "sonic: DSCP lost": ("sonic", '"34": "4"', '"33": "4"'),
    "sonic: CNP not strict": ("sonic", '"type": "STRICT"', '"type": "DWRR"'),
    "sonic: no ECN": ("sonic", '"ecn": "ecn_all"', '"ecn": "ecn_none"'),
    "sonic: tables before the reload": ("sonic", "sudo config save -y", "sudo config qos reload"),
    "nvue: PFC elsewhere": ("nvue", "pfc default-global switch-priority 4", "pfc default-global switch-priority 3"),
    "nvue: pool of three": ("nvue", "roce-lossless switch-priority 4", "roce-lossless switch-priority 3"),
    "nvue: not applied": ("nvue", "nv config apply\n", ""),
    "nvue: queue without ECN": ("nvue", "switch-priority 4 traffic-class 3", "switch-priority 4 traffic-class 4"),
    "onyx: PFC elsewhere": ("onyx", "priority-flow-control priority 4 enable", "priority-flow-control priority 3 enable"),
    "onyx: trust L2": ("onyx", "qos trust L3", "qos trust L2"),
    "onyx: pool of three": ("onyx", "roce map switch-priority 4", "roce map switch-priority 3"),
    "onyx: PFC off on the port": ("onyx", "interface ethernet 1/1 dcb priority-flow-control mode on force\n", ""),
    "eos: the map the other way": ("eos", "qos map dscp 34 to traffic-class 4", "qos map traffic-class 4 to dscp 34"),
    "eos: PFC elsewhere": ("eos", "priority 4 no-drop", "priority 3 no-drop"),
    "eos: MTU": ("eos", "mtu 9214", "mtu 9216"),
    "eos: profile not on the port": ("eos", "   service-profile RAILWRIGHT\n", ""),
    "nxos: PFC elsewhere": ("nxos", "pause pfc-cos 4", "pause pfc-cos 3"),
    "nxos: group elsewhere": ("nxos", "set qos-group 4", "set qos-group 3"),
    "nxos: drops": ("nxos", " weight 0 ecn", " weight 0"),
    "nxos: PFC off on the port": ("nxos", "  priority-flow-control mode on\n", ""),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_readers_notice_a_slip(slip: str) -> None:
    system, old, new = SLIPS[slip]
    text = "\n".join(hints(system, PROFILES["scnet-dscp34-prio4"]))
    good = READERS[system](text.split("\n"))
    commands = "\n".join(switch_text.commands(system, text.split("\n")))
    assert old in commands, "the slip slips"
    try:
        bad: Told | None = READERS[system](commands.replace(old, new).split("\n"))
    except (AssertionError, KeyError, StopIteration):
        bad = None
    assert bad != good


@pytest.mark.parametrize("system", SYSTEMS)
def test_without_a_text_the_default_does_not_do(system: str) -> None:
    """The readers' defaults: were they as the profiles want it, the tests above would pass with an empty text."""
    if system == "sonic":
        told = switch_text.sonic(["sudo config qos reload"])
        assert told.classes[26] == told.classes[34] == 1
        assert not {26, 34, 10} & set(told.paused)
        assert 48 not in told.strict
    elif system == "nvue":
        told = switch_text.nvue(["nv set qos roce state enabled", "nv set qos roce mode lossless", "nv config apply"])
        assert 26 in told.paused
        assert not {34, 10} & set(told.paused)
    else:
        with pytest.raises((AssertionError, KeyError, StopIteration)):
            READERS[system]([])


BAD = {
    "best effort lossless": (custom(2, 0, [0]), "priority 0"),
    "control lossless": (custom(226, 7, [7]), "priority 7"),
    "second one is best effort": (custom(106, 3, [0, 3]), "lossless priority 0"),
    "CNP in best effort": (custom(106, 3, [3], cnp=(0, 0)), "CNP priority 0"),
    "CNP lossless": (custom(106, 3, [3, 6]), "CNP priority 6"),
    "traffic lossy": (custom(106, 3, [4]), "not among the lossless"),
}


@pytest.mark.parametrize("name", BAD)
def test_no_text_for_a_profile_that_no_switch_can_follow(name: str) -> None:
    profile, said = BAD[name]
    for system in SYSTEMS:
        with pytest.raises(ValueError, match=said):
            hints(system, profile)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_name_cannot_begin_a_line(system: str) -> None:
    lines = hints(system, PROFILES["dscp26-prio3"]._replace(name="evil\nreload\r\x1b[2J no shutdown"))
    assert not [line for line in lines if any(ord(char) < 32 for char in line)]
    assert READERS[system](lines) == READERS[system](hints(system, PROFILES["dscp26-prio3"]))


def test_a_value_that_the_model_lacks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an empty place in a command."""
    (tmp_path / "eos.j2").write_text("qos map dscp {{ dscp }} to traffic-class {{ misspelt }}\n", encoding="utf-8")
    monkeypatch.setattr("railwright.switch_hints._environment", lambda: _environment().overlay(loader=FileSystemLoader(tmp_path)))
    with pytest.raises(UndefinedError, match="misspelt"):
        hints("eos", PROFILES["dscp26-prio3"])
