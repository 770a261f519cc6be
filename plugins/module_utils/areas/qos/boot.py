# SPDX-License-Identifier: GPL-3.0-or-later
"""The QoS settings of the rails' NICs at every boot, and whenever a NIC or its RDMA device is made again.

The kernel forgets them with the device: at a reboot, and at every restart of openibd. One settings file a NIC says what
to set, a fixed script carries it out, and one instance of a template unit runs it. Two things start it: systemd when the
interface appears (the instance is wanted by the interface's device unit), and a udev rule for what systemd does not see
as new, an RDMA device made again on an interface that stayed, or an interface that the initramfs had already.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ...errors import RailwrightError
from ...host.host import Host
from ...observe.qos_boot import DIRECTORY, MAC, MKDIR, PROFILE, RUN, TEMPLATE, UNIT_DIRECTORY, VALUE, enable_link, settings_path, unit_of
from ...types import Change
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file, removed_file
from ..common.units import RELOAD, enabled_unit, running_unit, systemctl
from .boot_script import SCRIPT, SCRIPT_TEXT
from .settings import Setting

UNIT = "%s/%s" % (UNIT_DIRECTORY, TEMPLATE)
# Not named after railwright: the network area takes udev rules that are for old ones of its own.
RULES = "/etc/udev/rules.d/90-roce-qos.rules"
UDEV_CONTROL = "/run/udev/control"
SYSTEMCTL = "/usr/bin/systemctl"  # udev wants a path
WHY = "the kernel forgets the QoS settings with the device: at a reboot, and at a restart of openibd"
SOURCE = "systemd.device(5), udev(7); inventory: rdma_qos_profile"
START_SECONDS = 320.0  # a little more than the unit's own limit

UNIT_TEXT = HEADER + r"""[Unit]
Description=Lossless RoCE settings of %I (railwright)
BindsTo=sys-subsystem-net-devices-%i.device
# Network managers set MTUs, and with it buffers, first. Not wanted from here: what waits for links may wait for minutes.
After=sys-subsystem-net-devices-%i.device network.target network-online.target
After=systemd-modules-load.service openibd.service sys-kernel-config.mount sys-kernel-debug.mount
PartOf=openibd.service
# Interface and RDMA device come with an event each, and a person may restart openibd often.
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=300
ExecStart=""" + SCRIPT + r""" %I

[Install]
WantedBy=sys-subsystem-net-devices-%i.device
"""


class BootNic(NamedTuple):
    """One NIC whose settings are to be there at boot. ``profile``: the name of what they are made from."""

    netdev: str
    mac: str
    label: str  # rail0 (eth1)
    hca: str
    port: int
    settings: Tuple[Setting, ...]
    profile: str = ""


class NicBoot(NamedTuple):
    file: FileState
    enabled: bool
    active: bool


class BootState(NamedTuple):
    """``nics``: by interface, those that are wanted; ``stale``: those of an earlier apply that are not."""

    script: FileState
    unit: FileState
    rules: FileState
    systemctl: str
    udev: bool  # without it (containers) systemd has no device units, and a unit that is bound to one cannot start
    nics: Dict[str, NicBoot]
    stale: Dict[str, NicBoot]


def observe_boot(host: Host, nics: Sequence[BootNic]) -> BootState:
    wanted = [nic.netdev for nic in nics]
    files = {name: observe_file(host, settings_path(name)) for name in wanted + host.listdir(DIRECTORY)}
    kept = [name for name in sorted(files) if name in wanted or (files[name].text and not files[name].foreign)]
    active = active_units(host, [unit_of(name) for name in kept])
    found = {name: NicBoot(files[name], host.readlink(enable_link(name)) is not None, unit_of(name) in active) for name in kept}
    return BootState(
        observe_file(host, SCRIPT), observe_file(host, UNIT), observe_file(host, RULES), host.which("systemctl") or SYSTEMCTL,
        host.exists(UDEV_CONTROL), {name: found[name] for name in wanted}, {name: found[name] for name in kept if name not in wanted})


def active_units(host: Host, units: Sequence[str]) -> List[str]:
    """One question for all; systemctl answers in the order of the question, a line each."""
    answers = host.run(("systemctl", "is-active") + tuple(units)).out.split() if units else []
    return [unit for unit, answer in zip(units, answers) if answer == "active"]


def boot_changes(area: str, nics: Sequence[BootNic], state: BootState) -> List[Change]:
    """In the order of apply: what is no longer wanted goes, then the parts that all share, then each NIC's own."""
    changes = [stale_change(area, name, boot) for name, boot in sorted(state.stale.items())]
    if not nics:
        for item, then in ((state.rules, ()), (state.unit, (RELOAD,)), (state.script, ())):
            changes += forget_file(area, item, "no NIC of this node has settings any more", SOURCE, then)
        return changes
    changes += plan_file(area, state.script, SCRIPT_TEXT, WHY + "; the unit of each NIC runs this", SOURCE, mode=0o755)
    changes += plan_file(area, state.unit, UNIT_TEXT, WHY, SOURCE, then=(RELOAD,))
    changes += plan_file(area, state.rules, rules_text(nics, state.systemctl), WHY + "; udev tells when it is made again", SOURCE)
    for nic in nics:
        changes += nic_changes(area, nic, state.nics[nic.netdev], state.udev)
    return changes


def nic_changes(area: str, nic: BootNic, boot: NicBoot, udev: bool) -> List[Change]:
    """The unit is started once now, which shows that boot will work: on a NIC that has its settings it changes nothing."""
    unit = unit_of(nic.netdev)
    changes = plan_file(area, boot.file, settings_text(nic), "%s: %s" % (nic.label, WHY), SOURCE)
    if not boot.enabled:
        changes.append(enabled_unit(area, unit, "%s: %s" % (nic.label, WHY), SOURCE))
    if udev and not boot.active:
        changes.append(running_unit(area, unit, "%s: what sets it at boot must have worked" % nic.label, SOURCE, START_SECONDS))
    return changes


def stale_change(area: str, netdev: str, boot: NicBoot) -> Change:
    """What the NIC has now stays; it would not at the next boot."""
    unit = unit_of(netdev)
    ops = [systemctl("stop", unit, START_SECONDS)] if boot.active else []
    ops += [systemctl("disable", unit)] if boot.enabled else []
    why = "%s is no NIC of a rail any more" % netdev
    return removed_file(area, boot.file.path, boot.file.text, why, SOURCE, first=tuple(ops))


def rules_text(nics: Sequence[BootNic], systemctl: str) -> str:
    """``move`` is how the kernel tells that udev or rdma-core has renamed a device.

    A new interface has taken its unit down (BindsTo), so that ``start`` will do; it waits until systemd knows the device. A new
    RDMA device on an interface that stayed finds the unit active. Plain ``restart`` would be wrong for both: it does not wait for
    the device, and at boot udev runs this before systemd has it (seen: systemd 252, "Bound to unit ..., but unit isn't active").
    """
    rows: List[str] = []
    for nic in sorted(nics, key=lambda item: item.netdev):
        for subsystem, name, verbs in (("net", nic.netdev, ("start",)), ("infiniband", nic.hca, ("try-restart", "start"))):
            if name:
                rows.append('ACTION=="add|move", SUBSYSTEM=="%s", KERNEL=="%s"%s\n' % (subsystem, name, "".join(
                    ', RUN+="%s --no-block %s %s"' % (systemctl, verb, unit_of(nic.netdev)) for verb in verbs)))
    return HEADER + "# A NIC loses its QoS when the interface or the RDMA device is made anew: the unit sets it again.\n" + "".join(rows)


def settings_text(nic: BootNic) -> str:
    head = "%s%s: %s, %s port %d\n# %s carries this out line by line; one tab stands between two words.\n" % (
        PROFILE, nic.profile or "none", nic.label, nic.hca, nic.port, SCRIPT)
    rows: List[Tuple[str, ...]] = [(MAC, nic.mac)] if nic.mac else []
    rows += [words_of(setting) for setting in nic.settings]
    for row in rows:
        check_words(nic, row)
    return HEADER + head + "".join("\t".join(row) + "\n" for row in rows)


def words_of(setting: Setting) -> Tuple[str, ...]:
    if setting.kind == RUN:
        return (RUN,) + setting.argv
    return (MKDIR, setting.path) if setting.kind == MKDIR else (VALUE, setting.path, setting.content)


def check_words(nic: BootNic, row: Tuple[str, ...]) -> None:
    """The file has no quoting, so a word that would need it must not get there. Raises before anything is changed."""
    for word in row:
        if not word or any(ord(char) < 32 or ord(char) == 127 for char in word):
            raise RailwrightError("%s: %r in the setting %r: a word must not be empty and must have no control characters" % (
                nic.label, word, row))
