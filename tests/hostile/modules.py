# SPDX-License-Identifier: GPL-3.0-or-later
"""One task for every module and mode, by itself: what a registered result of a step before would hold comes as a variable."""

from __future__ import annotations

from typing import Any

from tests.hostile.honest import ANSWERS, BUILD, MANIFEST, MESH_KEY, PLAN, RAIL, SHA

MODES: dict[str, dict[str, dict[str, Any]]] = {
    "rdma_bench": {
        "ddp.inspect": {}, "ddp.start": {}, "ddp.stop": {}, "ddp.collect": {}, "ddp.poll": {"age": 20}, "nccl_tests.probe": {},
        "nccl_tests.inspect": {"directory": "/opt/nccl-tests"}, "nccl_tests.poll": {}, "nccl_tests.stop": {}, "nccl_tests.collect": {},
    },
    "rdma_check": {"verdicts": {}, "drift": {}, "cabling": {"seconds": 65}},
    "rdma_drain": {"inspect": {"alone": True}},
    "rdma_facts": {"facts": {}, "ranks": {"process": "python3"}},
    "rdma_measure": {"ping": {"schedule": {"peers": {}, "rounds": []}, "check": "checked"}, "gpudirect": {"check": "checked"},
                     "health": {}},
    "rdma_packages": {"check": {"plan": PLAN}},
    "rdma_prefix": {
        "nccl.inspect": {}, "nccl.install": {"mode": "apply"}, "hpcx.inspect": {}, "hpcx.install": {"mode": "apply"},
        "erdma_driver.inspect": {}, "erdma_driver.install": {"mode": "apply"},
        "ai_environment.inspect": {}, "ai_environment.install": {"mode": "apply"},
        "nccl_tests.inspect": {}, "nccl_tests.state": {}, "nccl_tests.build": {}, "nccl_tests.pack": {"mode": "fetch"},
        "nccl_tests.verify": {},
    },
    "rdma_rollback": {
        "inspect": {}, "plan": {"to": "r1"}, "prove": {"to": "r1"}, "apply": {"to": "r1"}, "packages_before": {"plan": PLAN},
        "packages_after": {"record": "r1-packages"},
    },
    "rdma_ssh_mesh": {
        "observe": {}, "generate": {}, "read": {}, "apply": {},
        "login": {"schedule": {"peers": {}, "rounds": []}},
    },
    "rdma_state": {
        "plan": {}, "apply": {}, "confirm": {"run_id": "r1"}, "outcome": {"run_id": "r1"}, "explain": {}, "source": {}, "container": {},
    },
    "rdma_upgrade": {"lease": {"run": "r1"}, "release": {"run": "r1"}},
}
GUARDED: dict[str, dict[str, Any]] = {
    "apt": {"name": "x"}, "command": {"argv": ["true"]}, "copy": {"content": "x", "dest": "/x"}, "dnf": {"name": "x"},
    "file": {"path": "/x", "state": "directory"}, "get_url": {"url": "https://example.com/x", "dest": "/x"}, "slurp": {"src": "/x"},
    "stat": {"path": "/x"}, "systemd_service": {"name": "x"},
}
JOB = {
    "name": "all_reduce", "argv": "{{ {inventory_hostname: ['true']} }}", "environment": "{{ {inventory_hostname: {}} }}", "seconds": 5,
    "parts": "{{ {inventory_hostname: {'nodes': [inventory_hostname]}} }}",
}
VARIABLES: dict[str, Any] = {
    "upgrade_scheduler": "slurm", "upgrade_scheduler_host": "{{ inventory_hostname }}", "rdma_run_id": "r1", "rdma_job_user": "mpi",
    "ddp_benchmark_python": "/usr/bin/python3", "ai_environment_kind": "none",
    "checked": {**ANSWERS["rdma_check:verdicts"], "rails": [RAIL]}, "__nccl_tests_build_inspect": {"node": BUILD},
    "__nccl_tests_build_plan": {"build": {"directory": "/opt/railwright/nccl-tests/x", "programs": ["all_reduce_perf"], "download": "/x"}},
    "__nccl_tests_build_choose": {"choice": {"origin": "n", "build": False, "receivers": [], "programs": {"all_reduce_perf": SHA}}},
    "__nccl_tests_build_build": {"manifest": MANIFEST}, "__ddp_benchmark_start": ANSWERS["rdma_bench:ddp.start"],
    "__ddp_benchmark_plan": {"plan": {
        "run": "x", "hosts": ["{{ inventory_hostname }}"], "master": "127.0.0.1", "port": 29500, "backend": "gloo", "steps": 1, "warmup": 1,
        "batch": 1, "timeout_s": 60, "repeatable": False, "nodes": "{{ {inventory_hostname: {'user': 'mpi'}} }}", "root": False}},
    "__nccl_tests_plan": {"plan": {
        "run": "x", "user": "mpi", "launch": ["{{ inventory_hostname }}"], "probe": JOB, "jobs": [JOB], "hostfile": "", "cancel": None,
        "between_nodes": True, "root": False}},
    "__ssh_mesh_plan": {"mesh": {
        "members": [], "origin": "{{ inventory_hostname }}", "generate": False, "public_key": MESH_KEY, "generation": 1, "serial": 1,
        "receivers": [], "holders": []}},
    "__ssh_mesh_generate": {"public_key": MESH_KEY},
}  # fmt: skip


def tasks() -> dict[str, dict[str, Any]]:
    """By the answer that it asks for."""
    found = {}
    for module, modes in MODES.items():
        for mode, options in modes.items():
            product, _dot, step = mode.rpartition(".")
            named = {"benchmark" if module == "rdma_bench" else "product": product} if product else {}
            found[f"{module}:{mode}"] = {f"railwright.rdma.{module}": {**({"mode": step} if mode else {}), **named, **options}}
    for name, options in GUARDED.items():
        found[f"{name}:"] = {"railwright.rdma.rdma_guarded": {"module": f"ansible.builtin.{name}", "args": options}}
    return found
