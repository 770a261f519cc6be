# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on a node: a timer that looks each minute, by the code that ``node_code`` leaves; and what schedulers' hooks run."""

import json
from typing import Any, Dict, List, NamedTuple

from ...host.host import Host
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.files import HEADER, FileState, forget_file, observe_file, plan_file
from ..common.units import DIRECTORY, RELOAD, Unit, UnitState, observe_unit, plan_unit, removed_unit, systemctl
from . import node_code

NAME = "agent"
UNIT, TIMER = "railwright-agent.service", "railwright-agent.timer"
PROCESS = "railwright-agen"  # what the kernel shows of the name that agent/main.py takes: 15 characters
STARTER = node_code.DIRECTORY + "/agent"
HOOK = node_code.DIRECTORY + "/node-status"
WHY = "without a memory on the node nobody knows of a link that flapped at night"
CODE = "%s: %s" % (node_code.NAME, node_code.WHAT)
SOURCE = "choice: the site takes three steps, off, observe, drain"


class Desired(NamedTuple):
    """``starter``: '' where no agent is wanted."""

    starter: str
    unit: str
    hook: str


class Observed(NamedTuple):
    starter: FileState
    hook: FileState
    unit: FileState
    timer: UnitState


def desired(spec: Spec, identity: Identity) -> Desired:
    mode = spec["agent_mode"]
    if mode == "off" or not identity.has("systemd"):
        return Desired("", "", "")
    settings = {"mode": mode, "flaps": spec["agent_flaps"], "textfile": spec["agent_textfile_directory"] or "",
                "values": spec["agent_derived"], "checks": dict(spec["checks_derived"], window=spec["mass_hours"] * 3600.0)}
    code = "%s/%s" % (node_code.DIRECTORY, node_code.desired(spec, identity).file)
    without, unjudged = (spec[key] if mode == "drain" else "ok" for key in ("agent_hook_without_agent", "agent_hook_unjudged"))
    return Desired(starter_text(code, settings), unit_text(settings["textfile"]), hook_text(without, unjudged))


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if spec["agent_mode"] != "off" and not identity.has("systemd"):
        return [Problem(NAME, "agent_mode", "this node has no systemd, which starts the agent; allowed: off")]
    return []


def observe(host: Host, desired: Desired) -> Observed:
    timer = Unit(TIMER, TIMER_TEXT, "timers.target", bool(desired.starter))
    return Observed(observe_file(host, STARTER), observe_file(host, HOOK), observe_file(host, "%s/%s" % (DIRECTORY, UNIT)),
                    observe_unit(host, timer))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    files = ((observed.unit, desired.unit, 0o644, WHY, (RELOAD,)), (observed.starter, desired.starter, 0o755, WHY, ()),
             (observed.hook, desired.hook, 0o755, "schedulers ask it whether the node may take jobs", ()))
    if not desired.starter:
        gone: List[Change] = []
        if observed.timer.file.text is not None or observed.timer.enabled:
            why = "agent_mode is off; what it remembers stays in /var/lib/railwright/agent"
            gone = [removed_unit(NAME, TIMER, why, SOURCE, (systemctl("stop", TIMER), systemctl("disable", TIMER)))]
        return gone + [change for state, _text, _mode, why, then in files for change in forget_file(NAME, state, why, SOURCE, then)]
    changes = [change for state, text, mode, why, then in files for change in plan_file(NAME, state, text, why, SOURCE, mode, then)]
    changes += plan_unit(NAME, Unit(TIMER, TIMER_TEXT, "timers.target", True), observed.timer, WHY, SOURCE)
    return [change._replace(needs=(CODE,)) for change in changes]


def starter_text(code: str, settings: Dict[str, Any]) -> str:
    return HEADER + '''import base64
import importlib.util
import marshal
import sys
import types
import zlib

SETTINGS = r"""%s"""

with open("%s", "rb") as stream:
    _title, made_for, body = stream.read().split(b"\\n", 2)
if made_for.split()[0].decode("ascii") != importlib.util.MAGIC_NUMBER.hex():
    raise SystemExit("railwright's code is for another Python than this one: the next apply leaves it anew")
files = marshal.loads(zlib.decompress(base64.b64decode(body)))
boot = types.ModuleType("boot")
exec(marshal.loads(files["railwright_node/entry/boot.py"]), boot.__dict__)
sys.meta_path.insert(0, boot.Sources(files))
from railwright_node.agent.main import main

raise SystemExit(main(sys.argv[1:], SETTINGS))
''' % (json.dumps(settings, sort_keys=True), code)


def unit_text(textfile: str) -> str:
    """It reads devices and the kernel's log, and writes to three directories. ``mstconfig`` and NVML need the devices themselves."""
    return HEADER + """[Unit]
Description=railwright's agent: looks each minute whether this node is healthy

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'run() { "$$(command -v python3 || echo /usr/libexec/platform-python)" %s "$$1"; }; run look; ended=$$?; \\
  [ $$ended = 75 ] || exit $$ended; run whole && run look'
ExecStopPost=-/bin/sh -c '[ "$$SERVICE_RESULT" = timeout ] || rm -f /run/railwright/agent/looking'
TimeoutStartSec=120
TimeoutStopSec=5
LogLevelMax=notice
Nice=19
IOSchedulingClass=idle
CPUWeight=10
MemoryMax=256M
TasksMax=64
StateDirectory=railwright/agent
StateDirectoryMode=0700
RuntimeDirectory=railwright/agent
RuntimeDirectoryPreserve=yes
ProtectSystem=strict
ReadWritePaths=%s
ProtectHome=yes
PrivateTmp=yes
NoNewPrivileges=yes
RestrictSUIDSGID=yes
""" % (STARTER, "-" + textfile if textfile else "")


TIMER_TEXT = HEADER + """[Unit]
Description=railwright's agent looks each minute

[Timer]
OnActiveSec=5
OnUnitActiveSec=60
AccuracySec=5

[Install]
WantedBy=timers.target
"""


# Read as rules/check_modes.py reads it: codes hold themselves, anything else, and an empty file, holds all.
HELD = r"""# Whether the hold file keeps this check from acting: it names the check, or no check at all.
held() {
  [ -e /etc/railwright/hold ] || return 1
  codes=
  while read -r line || [ -n "$line" ]; do
    case $line in
      ''|'#'*) ;;
      "$1") return 0 ;;
      *[!a-z0-9_.]*|all) return 0 ;;
      *.*) codes=1 ;;
      *) return 0 ;;
    esac
  done < /etc/railwright/hold
  [ -z "$codes" ]
}
"""


def hook_text(without: str, unjudged: str = "ok") -> str:
    """A shell's own words only: no process is started, and no scheduler asked. ``without``: ok or refuse, where no agent says anything;
    ``unjudged``: ok or refuse, where nothing failed and a needed answer is missing.

    Sources: slurm.conf(5) (Prolog, Epilog, HealthCheckProgram); node-problem-detector, custom plugin: 0 OK, 1 NonOK, 2 Unknown, and a
    message of 80 bytes.
    """
    return "#!/bin/sh\n" + HEADER + r"""# node-status prolog | epilog | health | npd: by the line that railwright-agent writes each minute.
up=0 mode=none word=none reason='the agent has said nothing'
[ -r /run/railwright/agent/status ] && read -r word up mode reason < /run/railwright/agent/status
read -r now rest < /proc/uptime
""" + HELD + r"""case $up in *[!0-9]*|'') up=0 ;; esac
[ "$word" = none ] || [ $((${now%%.*} - up)) -le 300 ] || word=none reason='the agent is down'
case $1 in
  npd)
    case $word in
      ok) echo healthy; exit 0 ;;
      refuse|shared) printf '%.80s\n' "$reason"; exit 1 ;;
      *) printf '%.80s\n' "$reason"; exit 2 ;;
    esac ;;
  health)
    [ "$word" = ok ] || printf 'railwright: %s: %s\n' "$word" "$reason"
    exit 0 ;;
  prolog|epilog)
    [ "$word" != none ] || { word=""" + without + r"""; mode=drain; }
    if [ "$word" = unjudged ]; then
      word=""" + unjudged + r"""
      [ "$word" = refuse ] || printf 'railwright: not judged: %s\n' "$reason"
    fi
    if [ "$word" = refuse ] && [ "$mode" = drain ]; then
      if held "${reason%% *}"; then
        printf 'railwright: held by /etc/railwright/hold: %s\n' "$reason"
        exit 0
      fi
      printf 'railwright: %s\n' "$reason"
      [ "$1" = epilog ] || exit 1
    fi
    exit 0 ;;
esac
echo 'usage: node-status prolog | epilog | health | npd' >&2
exit 64
"""
