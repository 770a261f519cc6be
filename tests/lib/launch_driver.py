# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a node: one step of a run as the module rdma_bench takes it, with the same code. JSON in and out.

argv: the archive with module_utils. Input: {"step": name, "run", "user", and what the step wants}. The program is the test's own, which the
module never starts: it knows the collectives alone.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

from module_utils.errors import RailwrightError
from module_utils.host.host import Host
from module_utils.measure.nccl_tests import job, processes
from module_utils.measure.nccl_tests import run_directory as rundir


def begin(host, request):
    return job.begin(host, job.Launch(*[request.get(name) for name in job.Launch._fields]))


def poll(host, request):
    found = job.poll(host, request["run"], request["user"], request["name"], wait=request["wait"])
    text, _more = processes.output(host, job.log_of(request["run"], request["name"]), request["user"], 1 << 20)
    return dict(found, text=text)


def words(host, pid):
    return (host.read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()


STEPS = {
    "prepare": lambda host, request: rundir.prepare(host, request["run"], request["user"], request["hosts"]),
    "begin": begin,
    "poll": poll,
    "stop": lambda host, request: job.stop(host, request["run"], request["user"], request["cancel"]),
    "marked": lambda host, request: [
        words(host, item.pid) for item in processes.marked(host, request["run"], processes.account(request["user"]).uid)],
    "remove": lambda host, request: rundir.remove(host, request["run"]),
}

asked = json.load(sys.stdin)
try:
    answer = {"answer": STEPS[asked["step"]](Host(), asked)}
except (RailwrightError, OSError) as error:
    answer = {"error": str(error)}
json.dump(answer, sys.stdout)
