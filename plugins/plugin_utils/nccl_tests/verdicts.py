# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a run left on its nodes to verdicts and the runs of the ``bench`` document. Pure; what a node said is checked for its form.

Order of the judgement: did the launcher start every rank, has every rank a GPU, then each collective: its end, its values, its
speed, its way. What was not reached is said once, where it broke.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean, one_line, tail
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import transport
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.affinity import gpus_of_ranks, judge_near
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.json_report import parse_json
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import Answer, answer_from, no_device
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import parse
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .floors import Floor
from .judge import how_it_ended, judge_run, judged_busbw, leftovers, why
from .plan_jobs import Node


class Run(NamedTuple):
    """Everything about one run. ``probes`` and ``left`` by node: results of the steps; None where a node did not answer any more."""

    plan: Mapping[str, Any]
    nodes: Sequence[Node]
    probes: Mapping[str, Mapping[str, Any]]
    left: Mapping[str, Mapping[str, Any] | None]
    ended: Mapping[str, int]  # how many processes were still there at the end


def judge(run: Run) -> tuple[list[Verdict], list[dict[str, Any]]]:
    """(verdicts, the ``runs`` of the bench document)."""
    found = launch_verdicts(run)
    found += versions(run.nodes, {node.name: seen_by(run, node) for node in run.nodes})
    broken = any(item.status == "fail" and item.check in ("nccl.launch", "nccl.devices") for item in found)
    runs: list[dict[str, Any]] = []
    for job in [] if broken else run.plan["jobs"]:
        for start in job["argv"]:
            verdicts, record = judge_job(run, job, start)
            found += verdicts
            runs.append(record)
    missing = [item for item in run.plan["omitted"] if item["missing"]]
    found += [verdict("nccl.complete", VerdictSubject("", None, None, f"group {item['group']}"), "unknown", "a whole run", None,
                      item["why"]) for item in missing]
    return found + leftovers(run.ended), runs


def launch_verdicts(run: Run) -> list[Verdict]:
    """nccl.launch where ranks are launched, and nccl.devices for every node."""
    plan: Mapping[str, Any] = run.plan
    found: list[Verdict] = []
    if plan["probe"] is None:
        return [_devices(node.name, seen_answers(node), len(node.gpus)) for node in run.nodes]
    for start in plan["launch"]:
        nodes = [node for node in run.nodes if node.name == start] if plan["kind"] == "local" else list(run.nodes)
        probe = run.probes.get(start)
        wanted = len(nodes) * plan["per_node"]
        where = VerdictSubject(start if plan["kind"] == "local" else "", None, None, "%s on %s" % (
            plan["kind"], ", ".join(node.name for node in nodes[:4]) + (" …" if nodes[4:] else "")))
        said = answers_of(probe)
        found.append(_launch(where, start, wanted, probe, said, nodes))
        if found[-1].status == "pass":
            each = plan["kind"] != "local" and run.nodes[0].wishes["nccl_tests_ranks"] == "gpu"  # a rank for each GPU
            for node in nodes:
                mine = [item for item in said if same_host(item.host, node)] if plan["kind"] != "local" else said
                mine = mine if node.gpus else seen_answers(node)  # nothing was planned for a node on which the inspection saw none
                found.append(_devices(node.name, mine, plan["per_node"] if each else max(1, len(node.gpus))))
    return found


def _launch(
    where: VerdictSubject, start: str, wanted: int, probe: Mapping[str, Any] | None, said: Sequence[Answer], nodes: Sequence[Node]
) -> Verdict:
    if probe is None:
        return verdict("nccl.launch", where, "fail", wanted, None, f"{start} was lost before it had started the ranks")
    if probe.get("status") == 0 and len(said) == wanted:
        return verdict("nccl.launch", where, "pass", wanted, wanted, "every rank answered")
    silent = [node.name for node in nodes if not any(same_host(item.host, node) for item in said)]
    words = one_line(str(probe.get("reason") or "")) or "it said nothing"
    if "Invalid node name" in words:  # srun's answer to a name that slurm.conf has not
        words += "; a node's name there is upgrade_node_name, else its name in the inventory"
    who = "no rank answered" if not said else "%d of %d ranks answered%s" % (
        len(said), wanted, f", none of {', '.join(silent)}" if silent else "")
    return verdict("nccl.launch", where, "fail", wanted, len(said), "the launcher failed (%s), %s: %s" % (
        how_it_ended(probe.get("status")), who, words))


def _devices(node: str, said: Sequence[Answer], wanted: int) -> Verdict:
    """``wanted``: CUDA devices that the ranks of this node need."""
    where = VerdictSubject(node, None, None, "CUDA devices")
    counts = [len(item.devices) for item in said]
    error = next((item.error for item in said if item.error is not None), None)
    if not counts or min(counts) == 0:
        return verdict("nccl.devices", where, "fail", max(1, wanted), 0, no_device(node, one_line(error) if error else None))
    if min(counts) < wanted:
        return verdict("nccl.devices", where, "fail", wanted, min(counts), "%d CUDA devices on %s for %d ranks%s" % (
            min(counts), node, wanted, ": " + one_line(error) if error else ""))
    return verdict("nccl.devices", where, "pass", wanted, min(counts), f"{min(counts)} x {one_line(said[0].devices[0].name)}")


def seen_by(run: Run, node: Node) -> Answer | None:
    """What a rank of this node said: its library is the one that the jobs load."""
    said = [item for probe in run.probes.values() for item in answers_of(probe)]
    return next((item for item in said if same_host(item.host, node)), None)


def seen_answers(node: Node) -> list[Answer]:
    found = answer_from(node.seen["cuda"])
    return [] if found is None else [found]


def answers_of(probe: Mapping[str, Any] | None) -> list[Answer]:
    found = map(answer_from, (probe or {}).get("answers", []))
    return [item for item in found if item is not None]


def same_host(host: str, node: Node) -> bool:
    return bool(host) and host.partition(".")[0] == short_name(node)


def short_name(node: Node) -> str:
    """As NCCL and Slurm name it."""
    return str(node.seen["hostname"]).partition(".")[0]


def judge_job(run: Run, job: Mapping[str, Any], start: str) -> tuple[list[Verdict], dict[str, Any]]:
    """One collective as one node launched it."""
    part = job["parts"][start]
    nodes = [node for node in run.nodes if node.name in part["nodes"]]
    several = len(nodes) > 1
    by_itself = not several and (run.plan["kind"] == "local" or job["group"] != ALL)
    node, subject = (nodes[0].name if by_itself else ""), f"{job['collective']} {part['label'] or 'of %d GPUs' % part['ranks']}"
    output = job_left(run.left.get(start), job["name"])
    text = clean(output.get("text", ""))
    logs = {item.name: clean(job_left(run.left.get(item.name), job["name"]).get("log", "")) for item in nodes}
    log = "".join(logs.values())
    parsed = _parsed(text, output.get("json"))
    rc = output["rc"] if output.get("started") else None
    floor = Floor(*job["floors"][start])
    ended = dict(parsed, complete=parsed["complete"] and rc == 0)
    where = VerdictSubject(node, None, None, subject)
    verdicts = [_ended(where, output, ended, log)]
    if output.get("started") and parsed["rows"]:  # else there is nothing more to be said
        verdicts += judge_run(parsed, node, subject, floor)
    ways = transport.parse_log(log)
    if output.get("started") and not several and part["ranks"] > 1 and all(channel.kind != "NET" for channel in ways["channels"]):
        verdicts.append(transport.judge_run_transport(ways, where, {}, transport.gaps(ways, part["ranks"]), alone=True))
    elif output.get("started") and (several or part["ranks"] > 1):
        dark = [name for name, own in logs.items() if " via NET/" not in own]
        verdicts += _ways(run._replace(nodes=nodes), ways, log + text, where, job["variables"][start].get("NCCL_NET"), dark, part["end"])
    # Of other variables than NCCL's nobody knows which is a secret of the site.
    variables = {name: value for name, value in job["variables"][start].items() if name.startswith("NCCL_")}
    record = {
        "collective": job["collective"], "group": job["group"], "label": part["label"], "nodes": list(part["nodes"]),
        "ranks": part["ranks"], "argv": masked(job["argv"][start]), "environment": variables,
        "seconds": output.get("seconds"), "rc": rc, "rows": parsed["rows"], "avg_busbw": parsed["avg_busbw"],
        "out_of_bounds": parsed["out_of_bounds"], "complete": ended["complete"],
        "judged_busbw": judged_busbw(parsed["rows"], floor.judged_from),
        "floor": floor.gbs, "floor_source": floor.source, "ceiling": floor.ceiling, "limit": floor.limit,
        "transport": transport.summary(ways), "tail": tail(text), "node": node,
        "init_seconds": {name: max(total for total, _own in found.values()) for name, own in logs.items()
                         if (found := transport.init_seconds(own))},
        "late": [],
    }
    return verdicts, record


def _ways(
    run: Run, ways: Mapping[str, Any], log: str, where: VerdictSubject, net: str | None, dark: Sequence[str],
    end: str,
) -> list[Verdict]:
    """``net``: NCCL_NET of the run; ``dark``: nodes whose logs name no network connection; ``end``: the one RDMA device of the run."""
    plan = run.plan
    near = judge_near(ways, {str(node.seen["hostname"]): node.seen["affinity"] for node in run.nodes}, gpus_of_ranks(log))
    names = {str(node.seen["hostname"]): node.name for node in run.nodes}
    near = [item._replace(node=names.get(item.node, item.node)) for item in near]
    # connections between two dark ones would be known to nobody
    missing = [f"the logs of {', '.join(dark[:4])} name no network connection"] if dark else []
    found = transport.judge_run_transport(dict(ways), where, dict(plan), missing)
    if found.status == "skipped":
        return [found, *near]
    used = {name.rpartition(" ")[2] for names in transport.summary(dict(ways))["hcas"].values() for name in names}
    if found.status == "pass" and end and used != {end}:
        found = found._replace(status="fail" if used else "unknown", message=(
            f"the run was to use {end} alone; the log names {', '.join(sorted(used)[:4]) or 'no device'}"))
    return [found._replace(message=found.message + _chosen(run.nodes, net)), *near]


def _chosen(nodes: Sequence[Node], net: str | None) -> str:
    """Who chose the network, where jobs may have another one than this run."""
    own = nodes[0].wishes["nccl_tests_environment"]
    if "NCCL_NET" in own:
        return f"; NCCL_NET={one_line(str(own['NCCL_NET']))} is nccl_tests_environment's: other jobs may use another network"
    plugins = sorted({one_line(str(name)) for node in nodes for name in node.seen["net_plugins"]})
    return f"; NCCL chose, and tries {', '.join(plugins[:3])} first" if plugins and net is None else ""


def _ended(where: VerdictSubject, output: Mapping[str, Any], ended: Mapping[str, Any], log: str) -> Verdict:
    rows = f"{len(ended['rows'])} rows"
    if ended["complete"]:
        return verdict("nccl.complete", where, "pass", "a whole run", rows, "the run ended as it should")
    if not output:
        return verdict("nccl.complete", where, "fail", "a whole run", None, "the node that launched it was lost")
    if not output.get("started"):
        return verdict("nccl.complete", where, "fail", "a whole run", None, "not run: the one before it did not end by itself")
    how = how_it_ended(output["rc"])
    words = why(clean(output["text"]) + "\n" + "\n".join(output["tail"]), log)
    return verdict("nccl.complete", where, "fail", "a whole run", rows, f"{how} after {rows}{': ' + words if words else ''}")


def _parsed(text: str, document: Any) -> dict[str, Any]:
    """The JSON file where it is whole: it is not rounded. Else the table, which is there in any case."""
    if isinstance(document, str):
        found = parse_json(document)
        if found["complete"]:
            return found
    return parse(text)


def job_left(found: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    return next((item for item in (found or {}).get("jobs", []) if item["name"] == name), {})


_THINGS = (("driver", "GPU driver"), ("cuda", "CUDA of the driver"), ("nccl", "NCCL"), ("mpi", "MPI"))


def versions_of(node: Node, said: Answer | None) -> dict[str, str | None]:
    """``{"driver", "cuda", "nccl", "mpi"}`` of a node. NCCL's is that of the library a rank loaded, else of the first one found."""
    libraries = [item.get("version") for item in node.seen["nccl"] if isinstance(item, dict)]
    mpi = node.seen["mpi"][0] if node.seen["mpi"] else {}
    cuda = said.cuda if said is not None else node.seen["cuda"].get("cuda")
    nccl = said.nccl if said is not None and said.nccl is not None else next((item for item in libraries if item is not None), None)
    return {"driver": _word(node.seen.get("driver")), "cuda": _word(cuda), "nccl": _word(nccl),
            "mpi": _word("%s %s" % (mpi["kind"], mpi["version"])) if mpi else None}


def versions(nodes: Sequence[Node], said: Mapping[str, Answer | None]) -> list[Verdict]:
    """``nccl.versions`` of each thing, for a run over several nodes."""
    if len(nodes) < 2:
        return []
    each = {node.name: versions_of(node, said.get(node.name)) for node in nodes}
    found = [_agree(label, {name: values[key] for name, values in each.items()}) for key, label in _THINGS]
    for program in sorted({str(item["name"]) for node in nodes for item in node.seen["programs"]}):
        sums = {node.name: next((item["sha256"] for item in node.seen["programs"] if item["name"] == program), None) for node in nodes}
        found.append(_agree(program, {name: _word(value) for name, value in sums.items()}))
    return [item for item in found if item is not None]


def _agree(label: str, values: Mapping[str, str | None]) -> Verdict | None:
    """None where no node has the thing at all: other verdicts say that."""
    where = VerdictSubject("", None, None, label)
    known = {value for value in values.values() if value is not None}
    if not known:
        return None
    missing = [name for name, value in values.items() if value is None]
    each = ", ".join("%s has %s" % (name, (value or "none")[:16]) for name, value in sorted(values.items()))
    if len(known) > 1:
        return verdict("nccl.versions", where, "fail", "one on all nodes", sorted(known), "%s differs: %s" % (label, each))
    if missing:
        return verdict("nccl.versions", where, "unknown", "one on all nodes", sorted(known),
                       "%s is not known on %s" % (label, ", ".join(missing)))
    return verdict("nccl.versions", where, "pass", "one on all nodes", min(known), "%s is the same on %d nodes" % (label, len(values)))


def _word(value: Any) -> str | None:
    return one_line(value, 80) if isinstance(value, str) and value.strip() else None
