# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes have and the inventory wants to what is run: launcher, ranks, hosts, one job a collective. Pure.

What cannot work is a problem and stops the run before anything starts. Nodes without GPUs are none where a launcher is
asked for: the probe is launched there all the same, so that a broken launcher is not hidden behind a missing GPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import launch
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.collect import GRAPH, TOPOLOGY, debug_file
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.inspector import variables as inspector_variables
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import SECONDS as PROBE_SECONDS
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.processes import KILL_AFTER_S, MARKER
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.run_directory import HOSTS, PROBE, directory_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from ..speed.machine import Machine, machine_of
from .floors import FREE, KEY, Erdma, Site, above_ceiling, floor_of, least
from .groups import Omitted, Part, figure_of, narrowed, over_one_rail, parts_of
from .sizes import last_step, sizes_of

RANK_GRACE_S = 30  # ranks outlive their launcher by this at most, wherever they are
QUEUE_S = 300  # how long the probe may wait for Slurm to place it
RDMA_FABRICS = ("roce", "infiniband", "erdma")
# Which collectives an algorithm can do at all: NCCL refuses to run the others with it. NCCL 2.30.7, src/tuner and graph/tuning.cc.
ALGORITHMS: dict[str, tuple[str, ...] | None] = {
    "Ring": None, "Tree": ("all_reduce",), "NVLSTree": ("all_reduce",), "NVLS": ("all_reduce", "all_gather", "reduce_scatter")}
PER_NODE_KEYS = ("nccl_tests_path", "nccl_tests_archive", "nccl_tests_install", "nccl_tests_version", "nccl_tests_shared", "nccl_tests_nfs")


def wishes_of(spec: Spec) -> dict[str, Any]:
    """What the inventory says about this host's part, for the plan over all of them."""
    own = {key: value for key, value in spec.as_dict().items() if key.startswith("nccl_tests_")}
    return {**own, "fabric": spec.fabric, "gpudirect_path": spec["gpudirect_path"], "rails": len(spec.rails),
            "rail_names": [rail.name for rail in spec.rails], "leaves": spec["leaves"],
            "rate_gbps": spec.expect.get("rate_gbps"), "erdma_instance_type": spec["erdma_instance_type"],
            "nccl_profile": spec["nccl_profile"], "root": spec["job_user_root"] == ACCEPT, "node_name": spec["upgrade_node_name"],
            "transport": spec["nccl_derived"]["transport"]}


class Node(NamedTuple):
    """``wishes``: ``wishes_of``; ``seen``: what ``look`` said."""

    name: str
    wishes: Mapping[str, Any]
    seen: Mapping[str, Any]

    @property
    def gpus(self) -> list[list[Any]]:
        return list(self.seen["cuda"]["devices"])


class Launcher(NamedTuple):
    """``kind``: local, openmpi4, openmpi5, mpich or slurm; ``path`` and ``prefix`` of its command."""

    kind: str
    path: str | None
    prefix: str | None


def plan_run(nodes: Sequence[Node], run: str, leaves: Mapping[str, str] | None = None, at_once: int = 5) -> dict[str, Any]:
    """JSON: all that the later steps need, or ``problems``. ``leaves``: node -> its leaf; ``at_once``: nodes that are polled together."""
    found: dict[str, Any] = {"run": run, "problems": [], "jobs": [], "probe": None, "hosts": [node.name for node in nodes], "launch": [],
                             "omitted": []}
    if not nodes:
        return dict(found, problems=["no node is left to run on"])
    found["problems"] = disagreements(nodes) + [f"{node.name}: {text}" for node in nodes for text in node.seen["problems"]]
    if found["problems"]:
        return found
    launcher, problems = choose_launcher(nodes)
    if launcher is None or problems:
        return dict(found, problems=problems)
    local = launcher.kind == "local"
    counts = {node.name: len(node.gpus) for node in nodes}
    bare = [name for name, count in counts.items() if not count]
    if not local and not bare:
        found["problems"] = unequal(counts)
        if found["problems"]:
            return found
    wishes = nodes[0].wishes
    per_node = 1 if wishes["nccl_tests_ranks"] == "node" or local or bare else min(counts.values())
    starts = [node.name for node in nodes] if local else [_starting(nodes, launcher, wishes)]
    found.update({
        "launcher": launcher.kind if launcher.kind in ("local", "slurm") else "mpi", "root": all(node.wishes["root"] for node in nodes),
        "kind": launcher.kind, "user": nodes[0].seen["user"], "directory": directory_of(run), "launch": starts, "per_node": per_node,
        "ranks": sum(counts.values()), "purpose": wishes["nccl_tests_purpose"], "fabric": wishes["fabric"],
        "network": wishes["nccl_tests_network"], "gdr": wishes["gpudirect_path"] != "none" and wishes["nccl_tests_network"] == "promised",
        "between_nodes": not local and len(nodes) > 1, "cancel": f"railwright-{run}" if launcher.kind == "slurm" else None,
    })
    members = [[node] for node in nodes] if local else [list(nodes)]
    found["hostfile"] = launch.hostfile(launch_job(nodes, launcher, per_node, {}, run), launcher.kind) if not local else ""
    if not (local and bare):
        found["probe"] = _probe(members, starts, launcher, per_node, run)
    if not bare:
        found["jobs"], omitted = jobs_of(nodes, launcher, per_node, run, leaves or {}, at_once)
        found["omitted"] = [{"why": str(item), "group": item.group, "missing": item.missing} for item in omitted]
        held = {job["group"] for job in found["jobs"]}
        found["problems"] = [f"nccl_tests_groups: {item}" for item in omitted
                             if item.group not in held and item.group in (wishes["nccl_tests_groups"] or ())]
        found["problems"] += dict.fromkeys(
            text for job in found["jobs"] for floor in job["floors"].values() if (text := above_ceiling(figure_of(job), floor)))
    return found


def jobs_of(
    nodes: Sequence[Node], launcher: Launcher, per_node: int, run: str, leaves: Mapping[str, str], at_once: int
) -> tuple[list[dict[str, Any]], list[Omitted]]:
    """From narrow to wide, so that what hangs in a node is found before it takes others along. Over all nodes every collective; over a
    group the first one, at the sizes that are judged. A job has several launches where they can begin on different nodes."""
    wishes, local = nodes[0].wishes, launcher.kind == "local"
    collectives = launch.collectives_of(wishes["nccl_tests_collectives"], wishes["nccl_tests_purpose"])
    chosen = wishes["nccl_tests_groups"] or launch.purpose(wishes["nccl_tests_purpose"]).groups
    jobs, omitted = list[dict[str, Any]](), list[Omitted]()
    for group in (group for group in launch.GROUPS if group in chosen):
        parts, left_out = parts_of(group, nodes, leaves, local=local, chosen=chosen)
        omitted += left_out
        if group == launch.ALL:
            jobs += [job_of(name, name, group, parts, nodes, launcher, per_node, run) for name in collectives]
            continue
        apart = group != launch.RAIL and (launcher.kind != "slurm" or all(srun_of(part, nodes) for part in parts))
        step = at_once if apart else 1
        for at in range(0, len(parts), step):
            name = f"{collectives[0]}_{group}" + (f"_{at // step + 1}" if len(parts) > step else "")
            jobs.append(job_of(name, collectives[0], group, parts[at:at + step], nodes, launcher, per_node, run))
    return jobs, omitted


def srun_of(part: Part, nodes: Sequence[Node]) -> str | None:
    """srun of the part's first node, where each part may call its own; one node that calls it for all does so for one after the other."""
    first = next(node for node in nodes if node.name == part.nodes[0])
    return None if first.wishes["nccl_tests_slurm_host"] else first.seen["slurm"].get("srun")


def disagreements(nodes: Sequence[Node]) -> list[str]:
    """One run has one set of options; where the programs lie may differ only if nobody launches them for the others."""
    found = []
    for key in sorted(nodes[0].wishes):
        values = {node.name: node.wishes[key] for node in nodes}
        one_value = key == "leaves" or (key.startswith("nccl_tests_") and key not in PER_NODE_KEYS)
        if one_value and any(value != nodes[0].wishes[key] for value in values.values()):
            found.append(f"{'rdma_leaves' if key == 'leaves' else key} must be the same on every node: {_differing(values)}")
    users = {node.name: str(node.seen["user"]) for node in nodes}
    if len(set(users.values())) > 1:
        each = ", ".join("%s has %s" % item for item in sorted(users.items()))
        found.append(f"the jobs run as one user, and {each}; set nccl_tests_user")
    return found


def _differing(values: Mapping[str, Any]) -> str:
    """What each node has; of variables the names alone, as their values may be secrets."""
    if any(isinstance(value, dict) for value in values.values()):
        names = {name for value in values.values() for name in value if any(other.get(name) != value[name] for other in values.values())}
        return f"{', '.join(sorted(names))} differs"
    return ", ".join(f"{name} has {masked(value)}" for name, value in sorted(values.items()))


def choose_launcher(nodes: Sequence[Node]) -> tuple[Launcher | None, list[str]]:
    wanted = nodes[0].wishes["nccl_tests_launcher"]
    if wanted == "local" or (wanted == "auto" and len(nodes) == 1):
        return Launcher("local", None, None), []
    if len({node.seen["directory"] for node in nodes}) > 1:
        return None, ["nccl_tests_path must be the same on every node, or launch locally: %s" % ", ".join(
            f"{node.name} has {node.seen['directory']}" for node in nodes)]
    closed = [node.name for node in nodes if node.seen["needs_job"]]
    if wanted == "slurm" or not closed:
        return _slurm(nodes) if wanted == "slurm" else _mpi(nodes)
    launcher = _slurm(nodes)[0] if wanted == "auto" else None
    problem = "pam_slurm_adopt refuses ssh logins of users without a job, so mpirun fails; set nccl_tests_launcher: slurm (srun)"
    return launcher, [] if launcher else [f"{', '.join(closed)}: {problem}"]


def _slurm(nodes: Sequence[Node]) -> tuple[Launcher | None, list[str]]:
    name = nodes[0].wishes["nccl_tests_slurm_host"] or nodes[0].name
    caller = next((node for node in nodes if node.name == name), None)
    if caller is None:
        return None, [f"nccl_tests_slurm_host: {name} is not part of this run; allowed: {', '.join(node.name for node in nodes)}"]
    path = caller.seen["slurm"].get("srun")
    if path is None:
        return None, [f"{name} has no srun: set nccl_tests_slurm_host to a node that has one, or nccl_tests_launcher: mpi"]
    return Launcher("slurm", path, None), []


def _mpi(nodes: Sequence[Node]) -> tuple[Launcher | None, list[str]]:
    without = [node.name for node in nodes if not node.seen["mpi"]]
    if without:
        return None, [f"{name} has no mpirun: set mpi_install or mpi_prefix, the directory with bin/mpirun (HPC-X: ompi/bin/mpirun) in it "
                      "(nccl_tests_launcher: local runs each node by itself)" for name in without]
    first = nodes[0].seen["mpi"][0]
    same = [node for node in nodes if any((item["kind"], item["prefix"]) == (first["kind"], first["prefix"]) for item in node.seen["mpi"])]
    if len(same) < len(nodes):
        kinds = ", ".join(f"{node.name} has {node.seen['mpi'][0]['kind']} in {node.seen['mpi'][0]['prefix']}" for node in nodes)
        return None, [f"the nodes' MPI must be one: {kinds}"]
    return Launcher(first["kind"], first["mpirun"], first["prefix"]), []


def unequal(counts: Mapping[str, int]) -> list[str]:
    if len(set(counts.values())) == 1:
        return []
    each = ", ".join("%s has %d" % item for item in counts.items())
    return [f"the nodes must have equally many GPUs: {each}; leave nodes out with --limit"]


def _starting(nodes: Sequence[Node], launcher: Launcher, wishes: Mapping[str, Any]) -> str:
    return str(wishes["nccl_tests_slurm_host"] or nodes[0].name) if launcher.kind == "slurm" else nodes[0].name


def _probe(members: Sequence[Sequence[Node]], starts: Sequence[str], launcher: Launcher, per_node: int, run: str) -> dict[str, Any]:
    seconds = PROBE_SECONDS + (QUEUE_S if launcher.kind == "slurm" else 0)
    argv, environment = {}, {}
    for start, nodes in zip(starts, members, strict=False):
        pythons = {node.seen["python"] for node in nodes}
        python = pythons.pop() if len(pythons) == 1 else "python3"
        program = [python, "-I", f"{directory_of(run)}/{PROBE}"]
        argv[start], environment[start] = launch_of(nodes, launcher, per_node, _base(nodes, launcher), program, run)
    return {"name": "probe", "argv": argv, "seconds": seconds, "environment": environment}


def job_of(
    name: str, collective: str, group: str, parts: Sequence[Part], everybody: Sequence[Node], launcher: Launcher, per_node: int, run: str
) -> dict[str, Any]:
    """``name``: of its files on the nodes. All but the times is by the node on which a launch begins."""
    seconds = everybody[0].wishes["nccl_tests_timeout_s"] or launch.purpose(everybody[0].wishes["nccl_tests_purpose"]).seconds
    job: dict[str, Any] = {"name": name, "collective": collective, "group": group, "seconds": seconds, "polls": seconds // 4 + 60}
    job.update({key: {} for key in ("argv", "variables", "floors", "environment", "hosts", "parts")})
    by_name = {node.name: node for node in everybody}
    for part in parts:
        start, caller = part.nodes[0], launcher
        if launcher.kind == "slurm":
            own = srun_of(part, everybody) if len(parts) > 1 else None
            start = start if own else _starting(everybody, launcher, by_name[start].wishes)
            caller = launcher._replace(path=own or launcher.path)
        made = launch_part(job, part, [narrowed(by_name[member], part) for member in part.nodes], caller, 1 if part.rail else per_node, run)
        for key, value in made.items():
            job[key][start] = value
    return job


def launch_part(
    job: Mapping[str, Any], part: Part, nodes: Sequence[Node], launcher: Launcher, per_node: int, run: str
) -> dict[str, Any]:
    """What one launch adds to its job."""
    wishes, collective = nodes[0].wishes, job["collective"]
    gpus = len(nodes[0].gpus) if launcher.kind == "local" or wishes["nccl_tests_ranks"] == "node" else 1
    sizes = sizes_of(wishes, [device[2] for node in nodes for device in node.gpus], gpus, judged=job["group"] != launch.ALL)
    program = program_of(collective, nodes[0], job["seconds"], launch.options_of(sizes))
    if all(item["json"] for node in nodes for item in node.seen["programs"] if item["name"] == launch.COLLECTIVES[collective]):
        program += ["-J", f"{directory_of(run)}/{job['name']}.json"]
    own = over_one_rail(part.end, part.gpu) if part.rail else {}
    inspector = inspector_variables(wishes["nccl_tests_inspector"] if job["group"] == launch.ALL else None, directory_of(run))
    variables = {**inspector, **environment_of(collective, nodes, launcher, run, job["name"]), **own}
    made = launch_of(nodes, launcher, per_node, variables, program, run)
    rate = least([node.wishes["rate_gbps"] for node in nodes])
    site = Site(tuple(machine_as_meant(node, rate) for node in nodes), rate is not None,
                last_step(sizes.begin, sizes.end, sizes.factor), algorithm_of(variables, nodes), None if part.rail else _erdma(nodes))
    floor = floor_of(collective, {collective: wishes[KEY].get(figure_of(job))}, site)
    hosts = launch.hostfile(launch_job(nodes, launcher, per_node, {}, run), launcher.kind)
    said = {"label": part.label, "nodes": list(part.nodes), "end": part.end, "ranks": sum(len(node.gpus) for node in nodes)}
    return {"argv": made.argv, "environment": made.environment, "variables": variables, "floors": floor, "hosts": hosts, "parts": said}


def program_of(name: str, node: Node, seconds: int, options: Sequence[str]) -> list[str]:
    """Ends by itself wherever its launcher put it, a moment after the launcher should have ended it."""
    path = f"{node.seen['directory'].rstrip('/')}/{launch.COLLECTIVES[name]}"
    return ["timeout", "-k", str(KILL_AFTER_S), str(seconds + RANK_GRACE_S), path, *options]


def launch_of(
    nodes: Sequence[Node], launcher: Launcher, per_node: int, variables: Mapping[str, str], program: Sequence[str], run: str
) -> launch.Command:
    """``variables``: of the ranks; the run's marker comes to them, and to the launcher what it needs itself."""
    job = launch_job(nodes, launcher, per_node, {**variables, MARKER: run}, run)
    made = launch.command(launcher.kind, job, program, f"{directory_of(run)}/{HOSTS}")
    return launch.Command(made.argv, {**own_environment(nodes, launcher), **made.environment})


def machine_as_meant(node: Node, rate: float | None) -> Machine:
    """The GPUs that take part, and the inventory's rails at the rate that it expects. A rail that the node lacks is one all the same."""
    places = {place["pci"]: place for place in node.seen["places"]}
    gpus = [{"pci": pci, "name": name, **_place(places.get(pci))} for name, pci, _memory in node.gpus]
    rails = [place for place in node.seen["places"] if place["rail"] is not None]
    count = int(node.wishes["rails"])
    hcas = [{"name": place["rail"], **_place(place)} for place in rails[:count]]
    hcas += [{"name": f"rail {at + 1}", **_place(None)} for at in range(len(hcas), count)]
    return machine_of({"gpus": gpus, "hcas": [{**hca, "ports": [{"rate_gbps": rate}]} for hca in hcas]},
                      rails={hca["name"]: hca["name"] for hca in hcas}, gpudirect=node.wishes["gpudirect_path"] != "none")


def _place(place: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if place is None else {"pci_address": place["pci"], "numa_node": place["numa_node"], "link": {"links": place["links"]}}


# The last lets network switches reduce: busbw then exceeds what NICs carry, as a tree's does. NVSwitches reduce unless the second is 0.
STEERING = ("NCCL_ALGO", "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE")


def algorithm_of(variables: Mapping[str, str], nodes: Sequence[Node]) -> str:
    """What steers NCCL's choice in this run, as ``Site`` has it. NCCL takes a variable of the environment before nccl.conf's."""
    names = STEERING if len(nodes) > 1 else STEERING[:2]
    name = next((name for name in names if name in variables and (name != STEERING[1] or variables[name].strip() == "0")), None)
    if name is not None:
        known = {item.lower(): item for item in ALGORITHMS}.get(variables[name].strip().lower()) if name == "NCCL_ALGO" else None
        return known if known is not None else f"{name}={variables[name]} is set"
    own = sorted({key for node in nodes for key in node.seen["nccl_conf"] if key in names})
    return f"nccl.conf sets {' and '.join(own)}" if own else FREE


def _erdma(nodes: Sequence[Node]) -> Erdma | None:
    wishes = nodes[0].wishes
    if wishes["fabric"] != "erdma":
        return None
    types = {node.wishes["erdma_instance_type"] for node in nodes}
    return Erdma(types.pop() if len(types) == 1 else None, wishes["nccl_profile"])


def environment_of(name: str, nodes: Sequence[Node], launcher: Launcher, run: str, log: str = "") -> dict[str, str]:
    """The variables of the ranks, the marker aside. The operator's come last and win. ``log``: the job, where ``name`` is no job's."""
    wishes = nodes[0].wishes
    several = len(nodes) > 1
    conf = {key for node in nodes for key in node.seen["nccl_conf"]}
    promised = several and wishes["fabric"] in RDMA_FABRICS and wishes["nccl_tests_network"] != "any" and "NCCL_NET" not in conf
    # NCCL compares whole names: NCCL_NET=IB passes over IBext_v10 of a plugin, and the run would measure another network than jobs use.
    if wishes.get("transport") or any(node.seen["net_plugins"] for node in nodes):
        promised = False
    settings = _base(nodes, launcher)
    path = directory_of(run)
    if log in ("", name):  # the topology is that of a run over all nodes
        settings.update({"NCCL_TOPO_DUMP_FILE": f"{path}/{TOPOLOGY}", "NCCL_GRAPH_DUMP_FILE": f"{path}/{GRAPH}"})
    if promised:  # what NCCL else passes over in silence: nodes that see unequally many NICs
        settings["NCCL_IGNORE_NET_MISMATCH"] = "0"
    algorithm = wishes["nccl_tests_algorithm"] or ("Ring" if len(nodes) == 2 else "any")
    able = ALGORITHMS.get(algorithm, ())
    if algorithm != "any" and (able is None or name in able) and "NCCL_ALGO" not in conf:
        settings["NCCL_ALGO"] = algorithm
    settings.update({str(key): str(value) for key, value in wishes["nccl_tests_environment"].items()})
    return launch.nccl_environment(settings, "ib" if promised else "", debug_file(path, log or name))


def _base(nodes: Sequence[Node], launcher: Launcher) -> dict[str, str]:
    """Where the libraries are, MPI's own included."""
    libraries = dict.fromkeys([str(item) for node in nodes for item in node.seen["libraries"]] + _own_libraries(launcher))
    return {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}


def _own_libraries(launcher: Launcher) -> list[str]:
    """Of an MPI that the loader does not know by itself."""
    prefix = launcher.prefix
    return [] if prefix is None or prefix in ("/usr", "/usr/local") or prefix.startswith("/usr/lib") else [prefix + "/lib"]


def own_environment(nodes: Sequence[Node], launcher: Launcher) -> dict[str, str]:
    """What the launcher itself gets beside the variables of the ranks, on the node where it is started."""
    found = _base(nodes, launcher)
    if launcher.kind in ("openmpi4", "openmpi5") and nodes[0].seen["user"] == "root":  # the operator chose root; mpirun would ask again
        prefixes = ("OMPI", "PRTE") if launcher.kind == "openmpi5" else ("OMPI",)
        found.update({f"{prefix}_ALLOW_RUN_AS_ROOT{end}": "1" for prefix in prefixes for end in ("", "_CONFIRM")})
    return found


def launch_job(nodes: Sequence[Node], launcher: Launcher, per_node: int, values: dict[str, str], run: str) -> launch.Job:
    hosts = tuple(node.name if launcher.kind != "slurm" else slurm_name(node) for node in nodes)
    if len(nodes) == 1 and launcher.kind != "slurm":
        hosts = ("localhost",)  # its name in the inventory need not be known to anybody else
    options = ("--job-name", f"railwright-{run}", *nodes[0].wishes["nccl_tests_slurm_options"])
    marker = f"{MARKER}={run}" if launcher.kind in ("openmpi4", "openmpi5") else None
    return launch.Job(hosts, per_node, common_interface(nodes, launcher.kind), values, launcher.path, options, marker)


def slurm_name(node: Node) -> str:
    """Slurm's name of a node: the inventory's (upgrade_node_name), never the node's own word, since jobs start where it leads."""
    return str(node.wishes.get("node_name") or node.name.partition(".")[0])


def common_interface(nodes: Sequence[Node], kind: str) -> str | None:
    """One name where it is the same on all nodes; else, for Open MPI, the network that they share; else the launcher's own choice."""
    seen = [node.seen.get("interface") for node in nodes]
    known = [item for item in seen if isinstance(item, dict)]
    if len(known) < len(nodes):
        return None
    if len({item["name"] for item in known}) == 1:
        return str(known[0]["name"])
    shared = [text for text in known[0]["networks"] if all(text in item["networks"] for item in known)]
    return str(shared[0]) if shared and kind in ("openmpi4", "openmpi5") else None
