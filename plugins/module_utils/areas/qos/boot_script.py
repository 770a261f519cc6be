# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that sets a NIC's QoS again from its settings file. Fixed text: what differs per NIC is data, never code.

POSIX sh, since a node has that before anything else of ours; no word of a settings file is ever evaluated.
"""

from ...host.host import SEARCH_PATH
from ..common.files import HEADER

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
