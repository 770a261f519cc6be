# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that nobody has described is judged: in place, over ssh, or by one file that runs there by itself (``main``).

It takes 15 seconds at most, whatever hangs: everything is read in a process of its own, and one that nothing ends is left alone and is
the finding. Nothing is changed, and nothing needs root.
"""

import base64
import json
import sys
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple

from ..checks.check_report import document, node_lines
from ..checks.overview import overview
from ..checks.wishless import judge_without_wish
from ..errors import RailwrightError
from ..formats.masking import masked
from ..formats.outside import json_object, mapping
from ..formats.secrets import fit_answer, fit_to_leave
from ..host.hasty import EACH, HastyHost
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..host.recording import RecordingHost
from ..host.run import HANGS, MADE, in_child
from ..observe.devices import CLASS_INFINIBAND, VPD_LIMIT
from ..observe.facts import observe_facts, stack_summary
from ..observe.identity import observe_identity
from ..observe.nccl import CARRIERS, effective, observe_carriers
from ..observe.nics import ancestors_connection_address
from ..rules.comparisons import VerdictSubject, verdict
from ..types import Identity, Verdict, as_dicts

WALL, COMMANDS = 11.5, 9.5  # seconds for everything, and until the last command has ended; what hangs is given two more to end
PATIENT = 50.0  # until the last command of a bundle, which nobody waits for at a screen
CHECK, READS = "node.hangs", "every command answers in %g s" % EACH
HELP = """usage: python3 %s [--json] [--all]

Judge this node: links, PCIe, drivers, GPUs, GPUDirect. Nothing is changed, and no root is needed.
--json: one JSON document; --all: every verdict, not only what fits a screen. Ends 0 where every GPU and
RDMA port was judged and none failed, 1 where a verdict failed, 4 where a needed answer is missing.
"""


def answer(live: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """Of the modes ``check`` and ``bundle``. ``spec``: one without a wish. A captured tree is judged at once: nothing in it can hang."""
    node, values = params["node"], params["spec"]
    if params["mode"] == "bundle":
        if not live.live:
            return {"bundle": recorded(live, values)}
        return {"bundle": in_time(lambda tell: recorded(HastyHost(PATIENT, tell), values), PATIENT + WALL - COMMANDS)}
    return judged_in_time(node, values) if live.live else judged_alone(live, node, values)


def in_time(make: Callable[[Callable[[str], None]], Dict[str, Any]], wall: float) -> Dict[str, Any]:
    """Raises Hangs, RailwrightError."""
    end, data = in_child(lambda tell: json.dumps(make(tell)).encode("ascii"), wall)
    text = data.decode("utf-8", "replace")
    if end == HANGS:
        raise Hangs("it did not end in %g s and is left alone: %s" % (wall, text))
    found = json_object(text) if end == MADE else None
    if found is None:
        raise RailwrightError("the inspection ended with an error: %s" % (text or "it was killed"))
    return found


class Hangs(RailwrightError):
    """Whoever read the node did not come back."""


def recorded(live: Host, values: Mapping[str, Any]) -> Dict[str, Any]:
    """What a check reads of the node, less its secrets; contents that are no text as base64."""
    host = RecordingHost(live, fit_to_leave, fit_answer)
    judged_alone(host, "", values)
    for name in host.listdir(CLASS_INFINIBAND):  # nothing judges a NIC's serial number, and who sends it back needs it; root alone may read
        host.read_bytes("%s/%s/device/vpd" % (CLASS_INFINIBAND, name), VPD_LIMIT)
    entries = []
    for path, entry in sorted(host.entries.items()):
        data = entry.pop("data", None)
        row = dict(entry, path=path)
        if data is not None:
            try:
                row["text"] = data.decode("utf-8")
            except UnicodeDecodeError:
                row["base64"] = base64.b64encode(data).decode("ascii")
        entries.append(row)
    return {"entries": entries, "left_out": sorted(set(host.left_out))}


def judged_in_time(node: str, values: Mapping[str, Any], wall: float = WALL) -> Dict[str, Any]:
    def make(tell: Callable[[str], None]) -> Dict[str, Any]:
        host = HastyHost(min(COMMANDS, wall), tell)
        found = judged_alone(host, node, values)
        return dict(found, verdicts=found["verdicts"] + as_dicts(judge_hurry(found["node"], host)))

    try:
        return in_time(make, wall)
    except Hangs as error:
        name = node or "localhost"
        hangs = verdict(CHECK, VerdictSubject(name, None, None, "the inspection"), "fail", READS, None,
                        "%s. Nothing else of this node could be judged" % error)
        return {"node": name, "verdicts": as_dicts([hangs]), "overview": {"node": "whoever reads it hangs"}}


def judged_alone(live: Host, node: str, values: Mapping[str, Any]) -> Dict[str, Any]:
    """``node``: as the controller calls it; '' for the node's own name."""
    host = InspectedHost(live)
    name, _identity, facts, verdicts = seen_alone(host, node, values)
    conf = mapping(mapping(mapping(facts.get("nccl")).get("conf")).get("variables"))
    jobs = [(CARRIERS[carrier.name], effective(host, carrier, conf)) for carrier in observe_carriers(host) if carrier.variables is not None]
    return {
        "node": name, "verdicts": as_dicts(verdicts),
        "overview": overview(facts, stack_summary(facts), jobs, not live.live or host.user() == 0),
    }


def seen_alone(host: InspectedHost, node: str, values: Mapping[str, Any]) -> Tuple[str, Identity, Dict[str, Any], List[Verdict]]:
    identity = observe_identity(host, ancestors_connection_address(host) if host.live else None)
    facts = observe_facts(host, identity)
    name = node or identity.hostname or "localhost"
    return name, identity, facts, judge_without_wish(name, values, identity, facts)


def judge_hurry(node: str, host: HastyHost) -> List[Verdict]:
    """Of each program that did not answer in its time; and of those that were not asked any more."""
    found = []
    for tool, result in sorted(host.hung.items()):
        where = VerdictSubject(node, None, None, tool)
        why = result.err if result.stuck else "%s; it was ended" % result.err
        found.append(verdict(CHECK, where, "fail" if result.stuck else "warn", READS, None, why))
    if host.late:
        where = VerdictSubject(node, None, None, "commands")
        found.append(verdict(CHECK, where, "warn", READS, None, "not asked, as the time was over: %s" % ", ".join(sorted(set(host.late)))))
    return found


def main(values: Mapping[str, Any], commands: Mapping[str, str], arguments: Optional[Sequence[str]] = None) -> NoReturn:
    """What the one file runs. It carries ``values``: of a Spec without a wish, and ``commands``: those that show more of a verdict."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if set(given) - {"--json", "--all"}:
        sys.stdout.write(HELP % sys.argv[0])
        raise SystemExit(0 if set(given) <= {"-h", "--help"} else 64)
    try:
        found = masked(judged_in_time("", values))
        name = found["node"]
        said = document({name: {"status": "ok", "message": "", "overview": found["overview"]}}, found["verdicts"], commands)
    except RailwrightError as error:
        name = "this node"
        said = document({name: {"status": "failed", "message": str(error), "overview": {}}}, [], commands)
    text = json.dumps(said, indent=2) if "--json" in given else "\n".join(line for _kind, line in node_lines(said, name, "--all" in given))
    sys.stdout.buffer.write((text + "\n").encode(sys.stdout.encoding or "ascii", "backslashreplace"))
    sys.stdout.flush()
    raise SystemExit(said["summary"]["exit_code"])
