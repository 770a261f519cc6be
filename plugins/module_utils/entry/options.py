# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of our modules, as their documentation names them. A module and its action plugin hold a task to the same ones."""

from typing import Any, Dict

Options = Dict[str, Any]

BENCH: Options = {
    "benchmark": {"type": "str", "choices": ["nccl_tests", "ddp"], "required": True},
    "mode": {
        "type": "str", "choices": ["inspect", "plan", "prepare", "probe", "pairs", "start", "poll", "stop", "collect", "judge"],
        "required": True},
    "job": {"type": "int", "default": 0},
    "age": {"type": "int"},
    "directory": {"type": "str"},
    "libraries": {"type": "list", "elements": "str", "default": []},
}
CHECK: Options = {
    "mode": {"type": "str", "choices": ["verdicts", "drift", "cabling"], "default": "verdicts"},
    "seconds": {"type": "int", "default": 0},
}
DRAIN: Options = {
    "mode": {
        "type": "str", "default": "inspect",
        "choices": ["inspect", "drain", "wait", "revert", "verify", "undrain", "isolate", "open", "tell"],
    },
    **{name: {"type": "str"} for name in ("run", "seen", "taken")},
    "reasons": {"type": "dict"},
    "alone": {"type": "bool", "default": False},
    "expect": {"type": "str", "choices": ["answer", "any", "drained", "closed", "available"], "default": "any"},
    "began": {"type": "float"},
    "timeout_s": {"type": "int", "default": 0},
}
FACTS: Options = {
    "mode": {"type": "str", "choices": ["facts", "job", "nodes", "ranks"], "default": "facts"},
    **{name: {"type": "str"} for name in ("scheduler", "job", "select", "process")},
    "uid": {"type": "int"},
    "pods": {"type": "list", "elements": "str", "default": []},
    "seconds": {"type": "int", "default": 10},
}
MEASURE: Options = {
    "mode": {"type": "str", "choices": ["ping", "start", "run", "sample", "stop", "gpudirect", "health"], "required": True},
    "schedule": {"type": "dict"},
    **{name: {"type": "str"} for name in ("check", "started", "ping", "gpudirect", "measured")},
    "together": {"type": "bool", "default": False},
    "round": {"type": "int", "default": 0},
    "count": {"type": "int", "default": 2},
    "wait": {"type": "int", "default": 1},
    "diag": {"type": "bool", "default": False},
}
PACKAGES: Options = {
    "mode": {"type": "str", "choices": ["check", "failed"], "default": "check"},
    "plan": {"type": "dict"},
    "error": {"type": "dict"},
    "after_file": {"type": "bool", "default": False},
    "download": {"type": "bool", "default": True},
}
PREFIX: Options = {
    "product": {"type": "str", "choices": ["nccl", "hpcx", "nccl_tests", "ai_environment", "erdma_driver"], "required": True},
    "mode": {"type": "str", "choices": ["inspect", "apply", "plan", "state", "choose", "build", "fetch", "give", "forget", "verify"],
             "required": True},
}
ROLLBACK: Options = {
    "mode": {"type": "str", "choices": ["inspect", "plan", "prove", "apply", "packages_before", "packages_after"], "default": "inspect"},
    **{name: {"type": "str"} for name in ("to", "run_id", "record")},
    "force": {"type": "list", "elements": "str", "default": []},
    "expected": {"type": "list", "elements": "str"},
    "plan": {"type": "dict"},
}
SSH_MESH: Options = {
    "mode": {"type": "str", "choices": ["observe", "plan", "generate", "read", "key", "apply", "prove", "login"], "required": True},
    "schedule": {"type": "dict"},
    "private_key": {"type": "str", "no_log": True},
}
STATE: Options = {
    "mode": {"type": "str", "choices": ["plan", "apply", "confirm", "outcome", "explain", "source", "container"], "default": "plan"},
    **{name: {"type": "list", "elements": "str"} for name in ("areas", "expected", "only")},
    "consented_only": {"type": "bool", "default": False},
    "run_id": {"type": "str"},
    "image": {"type": "str"},
    "job": {"type": "list", "elements": "str", "default": []},
}
UPGRADE: Options = {
    "mode": {"type": "str", "choices": ["lease", "release", "report", "after_reboot"], "required": True},
    "run": {"type": "str"},
    "take_over": {"type": "bool", "default": False},
    "step": {"type": "str", "choices": ["preflight", "change"], "default": "preflight"},
    **{name: {"type": "dict"} for name in ("plan", "lease", "scheduler", "dry_run", "error")},
    "prefixes": {"type": "list", "elements": "dict", "default": []},
    "waited_s": {"type": "int"},
}
