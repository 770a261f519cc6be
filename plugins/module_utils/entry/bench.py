# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of rdma_bench: one step of nccl-tests, or of the training benchmark, on a node."""

from typing import Any, Callable, Dict

from ..errors import RailwrightError
from ..formats.text import first_of
from ..host.host import Host
from ..measure.counter_verdicts import watched
from ..measure.ddp import node
from ..measure.ddp.launch import share_from
from ..measure.nccl_tests import job, pairs, readiness, run_directory
from ..measure.nccl_tests.collect import collect
from ..measure.nccl_tests.launch import collectives_of
from ..observe.accounts import ACCEPT, job_account
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address
from ..prefix.python_env.manifest import steady
from ..spec.model import Spec

Params = Dict[str, Any]
USERS = {"nccl_tests": "nccl_tests_user", "ddp": "ddp_benchmark_user"}


def answer(host: Host, params: Params, dry: bool) -> Dict[str, Any]:
    benchmark, mode = params["benchmark"], params["mode"]
    if dry and mode != "inspect":
        return {"skipped": True}
    try:
        if mode != "inspect":
            job_account(host, params["share"]["user"] if benchmark == "ddp" else params["user"], USERS[benchmark], bool(params["root"]))
        return STEPS[benchmark][mode](host, params)
    except (RailwrightError, OSError) as error:
        raise RailwrightError("%s: %s" % ("ddp_benchmark" if benchmark == "ddp" else "nccl_tests %s" % mode, error)) from error


def user_of(host: Host, spec: Spec, benchmark: str) -> str:
    return job_account(host, spec[USERS[benchmark]], USERS[benchmark], spec["job_user_root"] == ACCEPT).name


def inspect_gpus(host: Host, params: Params) -> Dict[str, Any]:
    spec = Spec(params["spec"])
    wanted = readiness.Wanted(
        user_of(host, spec, "nccl_tests"), params["directory"], tuple(params["libraries"]),
        collectives_of(spec["nccl_tests_collectives"], spec["nccl_tests_purpose"]), spec["mpi_prefix"],
        {str(name): str(value) for name, value in spec["nccl_tests_environment"].items()})
    identity = observe_identity(host, ancestors_connection_address(host))
    return {"seen": readiness.inspect_readiness(host, params["node"], spec, identity, wanted)}


def inspect_torch(host: Host, params: Params) -> Dict[str, Any]:
    spec = Spec(params["spec"])
    wanted = node.Wanted(params["node"], steady(host, spec["ddp_benchmark_python"]), spec["ddp_benchmark_backend"],
                         spec["ddp_benchmark_processes"], user_of(host, spec, "ddp"), spec["ddp_benchmark_port"])
    return {"seen": node.inspect_ddp_node(host, wanted, spec, observe_identity(host, ancestors_connection_address(host)))}


def prepare(host: Host, params: Params) -> Dict[str, Any]:
    run_directory.prepare(host, params["run"], params["user"], params["hosts"])
    run_directory.keep_counters(host, params["run"], watched(params["watch"]["ports"]))
    return {}


def launch_of(params: Params) -> job.Launch:
    wanted = params["launch"]
    return job.Launch(params["run"], params["user"], wanted["name"], [str(word) for word in wanted["argv"]],
                      {str(name): str(value) for name, value in wanted["environment"][params["node"]].items()}, int(wanted["seconds"]),
                      wanted.get("hosts"))


def measure_pairs(host: Host, params: Params) -> Dict[str, Any]:
    wanted = [[pairs.Question(launch_of(dict(params, launch=item)), int(item["groups"])) for item in pair] for pair in params["pairs"]]
    return {"pairs": pairs.measure(host, wanted, params["cancel"])}


def results(host: Host, params: Params) -> Dict[str, Any]:
    grown = run_directory.judge_counters(host, params["run"], params["node"], params["watch"])
    found = collect(host, params["run"], params["user"], params["names"])
    names = ["%r" % name for name in found.pop("left")]  # chosen by the job user
    left = ["%s: not removed: %s" % (run_directory.directory_of(params["run"]), first_of(names))] if names else []
    return dict(found, warnings=found.pop("notes") + left, **grown)


def ranks(host: Host, params: Params) -> Dict[str, Any]:
    share = share_from(params["share"])
    grown = run_directory.judge_counters(host, share.run, params["node"], params["watch"])
    found = dict(node.collect(host, share), way=node.way(host, share))
    node.remove(host, share.run)
    return dict(grown, collected=found)


STEPS: Dict[str, Dict[str, Callable[[Host, Params], Dict[str, Any]]]] = {
    "nccl_tests": {
        "inspect": inspect_gpus,
        "prepare": prepare,
        "probe": lambda host, params: job.run_probe(host, launch_of(params)),
        "start": lambda host, params: job.begin(host, launch_of(params)),
        "poll": lambda host, params: job.poll(host, params["run"], params["user"], params["launch"]["name"]),
        "stop": lambda host, params: job.stop(host, params["run"], params["user"], params["cancel"]),
        "pairs": measure_pairs,
        "collect": results,
    },
    "ddp": {
        "inspect": inspect_torch,
        "start": lambda host, params: {
            "process": node.start(host, share_from(params["share"]), params["files"], watched(params["watch"]["ports"]))},
        "poll": lambda host, params: node.poll(host, share_from(params["share"]), params["process"], float(params["age"])),
        "stop": lambda host, params: {"ended": node.stop(host, share_from(params["share"]))},
        "collect": ranks,
    },
}
