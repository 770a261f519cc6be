# SPDX-License-Identifier: GPL-3.0-or-later
"""The QoS settings of the rails' NICs at every boot, and whenever a NIC or its RDMA device is made again.

The kernel forgets them with the device: at a reboot, and at every restart of openibd. One settings file a NIC says what
to set, a fixed script carries it out, and one instance of a template unit runs it. Two things start it: systemd when the
interface appears (the instance is wanted by the interface's device unit), and a udev rule for what systemd does not see
as new, an RDMA device made again on an interface that stayed, or an interface that the initramfs had already.
The script is POSIX sh, since a node has that before anything else of ours; no word of a settings file is ever evaluated.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ...errors import RailwrightError
from ...host.host import SEARCH_PATH, Host
from ...observe.qos_boot import DIRECTORY, MAC, MKDIR, PROFILE, RUN, TEMPLATE, UNIT_DIRECTORY, VALUE, enable_link, settings_path, unit_of
from ...types import Change
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file, removed_file
from ..common.units import RELOAD, enabled_unit, running_unit, systemctl
from .settings import Setting

SCRIPT = "/usr/local/libexec/railwright/roce-qos"

SCRIPT_TEXT = "#!/bin/sh\n" + HEADER + r"""# usage: roce-qos NETDEV
# Carries out /etc/railwright/roce-qos/NETDEV line by line; one tab stands between two words:
#   mac MAC             the interface must be this one, or nothing is set
#   run WORD...         a command
#   value PATH CONTENT  a kernel attribute below /sys
#   mkdir PATH          a directory below /sys/kernel/config
# A line that fails is told with what the kernel said, the others are carried out all the same, and the exit code is 1.
set -u
PATH=""" + SEARCH_PATH + r"""
LC_ALL=C
export PATH LC_ALL
TAB=$(printf '\t')
WAIT=60  # seconds for what comes after the interface (its RDMA device), in all
LIMIT=60 # seconds for one command

netdev=${1:-}
case $netdev in
'' | . | .. | */*)
    echo "usage: roce-qos NETDEV" >&2
    exit 64
    ;;
esac
settings=/etc/railwright/roce-qos/$netdev
net=/sys/class/net/$netdev
left=$WAIT
why= # what the last line that failed failed with
# A device that appears while we wait starts us anew: being stopped for that is no failure.
trap 'exit 0' TERM

say() {
    printf '%s\n' "$netdev: $*" >&2
}

a_second_is_left() {
    [ "$left" -gt 0 ] || return 1
    left=$((left - 1))
    sleep 1
}

await() { # PATH
    until [ -e "$1" ]; do
        if ! a_second_is_left; then
            why="$1 is not there, $WAIT s after the start"
            return 1
        fi
    done
}

below() { # PATH PARENT: no way out of the parent either
    case $1 in
    *//* | */./* | */../* | */. | */.. | */) ;;
    "$2"/?*) return 0 ;;
    esac
    why="only what is below $2 can be set"
    return 1
}

# A member of a bond shows the bond's address, and its own beside it.
address() {
    cat "$net/bonding_slave/perm_hwaddr" 2>/dev/null || cat "$net/address" 2>/dev/null
}

is_nic() { # MAC
    until [ "$(address)" = "$1" ]; do
        if ! a_second_is_left; then
            say "is $(address), and the settings are for $1: interfaces have changed their names. Nothing was set; apply again"
            exit 1
        fi
    done
}

run_tool() { # WORD...
    case $1 in
    -*) tool= ;;
    *) tool=$(command -v "$1") || tool= ;;
    esac
    case $tool in
    /*) ;; # a builtin of the shell has no path
    *)
        why="no program $1 on this node"
        return 1
        ;;
    esac
    shift
    why=$(timeout -k 5 "$LIMIT" "$tool" "$@" 2>&1 </dev/null)
}

# RDMA-CM has its directories once its module is loaded, and takes a device a moment after the device is there.
make_directory() { # PATH
    below "$1" /sys/kernel/config || return 1
    case $1 in
    /sys/kernel/config/rdma_cm/?*)
        device=${1#/sys/kernel/config/rdma_cm/}
        await "/sys/class/infiniband/${device%%/*}" || return 1
        [ -d /sys/kernel/config/rdma_cm ] || modprobe rdma_cm
        await /sys/kernel/config/rdma_cm || return 1
        ;;
    *) ;;
    esac
    for again in yes yes yes no; do
        why=$(mkdir -p -- "$1" 2>&1) && return
        [ "$again" = yes ] && a_second_is_left || return 1
    done
}

set_value() { # PATH CONTENT
    below "$1" /sys || return 1
    await "$1" || return 1
    why=$(printf '%s' "$2" | tee -- "$1" 2>&1 >/dev/null)
}

carry_out() { # LINE
    rest=$1
    set --
    while :; do
        set -- "$@" "${rest%%"$TAB"*}"
        case $rest in
        *"$TAB"*) rest=${rest#*"$TAB"} ;;
        *) break ;;
        esac
    done
    kind=$1
    shift
    case $kind:$# in
    run:0) ;;
    mac:1) is_nic "$1" && return ;;
    run:*) run_tool "$@" && return ;;
    value:2) set_value "$1" "$2" && return ;;
    mkdir:1) make_directory "$1" && return ;;
    esac
    return 1
}

if [ ! -r "$settings" ]; then
    say "no settings: $settings cannot be read"
    exit 1
fi
failed=0
number=0
while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    case $line in '' | '#'*) continue ;; esac
    why="is no line of settings"
    if ! carry_out "$line"; then
        failed=1
        say "line $number failed: $(printf '%s' "$line" | tr '\t' ' '): ${why:-no word of why}"
    fi
done <"$settings"
exit "$failed"
"""


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
    # One question for all; systemctl answers in the order of the question, a line each.
    answers = host.run(("systemctl", "is-active", *map(unit_of, kept))).out.split() if kept else []
    active = [name for name, answer in zip(kept, answers) if answer == "active"]
    found = {name: NicBoot(files[name], host.readlink(enable_link(name)) is not None, name in active) for name in kept}
    return BootState(
        observe_file(host, SCRIPT), observe_file(host, UNIT), observe_file(host, RULES), host.which("systemctl") or SYSTEMCTL,
        host.exists(UDEV_CONTROL), {name: found[name] for name in wanted}, {name: found[name] for name in kept if name not in wanted})


def boot_changes(area: str, nics: Sequence[BootNic], state: BootState) -> List[Change]:
    """In the order of apply: what is no longer wanted goes, then the parts that all share, then each NIC's own."""
    changes = []
    for name, boot in sorted(state.stale.items()):  # what the NIC has now stays; it would not at the next boot
        ops = [systemctl("stop", unit_of(name), START_SECONDS)] if boot.active else []
        ops += [systemctl("disable", unit_of(name))] if boot.enabled else []
        changes.append(removed_file(area, boot.file.path, boot.file.text, "%s is no NIC of a rail any more" % name, SOURCE,
                                    first=tuple(ops)))
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
    rows += [setting_arguments(setting) for setting in nic.settings]
    for row in rows:  # the file has no quoting, so a word that would need it must not get there
        for word in row:
            if not word or any(ord(char) < 32 or ord(char) == 127 for char in word):
                raise RailwrightError("%s: %r in the setting %r: a word must not be empty and must have no control characters" % (
                    nic.label, word, row))
    return HEADER + head + "".join("\t".join(row) + "\n" for row in rows)


def setting_arguments(setting: Setting) -> Tuple[str, ...]:
    if setting.kind == RUN:
        return (RUN,) + setting.argv
    return (MKDIR, setting.path) if setting.kind == MKDIR else (VALUE, setting.path, setting.content)
