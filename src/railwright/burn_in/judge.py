# SPDX-License-Identifier: GPL-3.0-or-later
"""What a round of a burn-in shows beside its benchmarks: heat, memory errors, DCGM's diagnosis, bits that differ; and whose fault. Pure.

A part is known by its serial number, so that one that is moved to another node keeps what was counted.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

Object = dict[str, Any]
CLOCKS = {"hw": "to a half or less by the hardware", "sw": "by the driver"}
WORST = ("fail", "warn", "unknown", "pass", "skipped")
SAME = "the same bits on all ranks and in all rounds"


class Part(NamedTuple):
    """``serial``: of a GPU without one its UUID."""

    serial: str
    what: str
    node: str
    name: str


Parts = Mapping[tuple[str, str], Part]  # by node, and the subject of a verdict, a UUID or the name of an HCA


def parts_of(health: Mapping[str, Object]) -> dict[tuple[str, str], Part]:
    """``health``: node -> what rdma_measure's mode health said. Those that say who they are."""
    found: dict[tuple[str, str], Part] = {}
    for node, said in health.items():
        for gpu in rows(said.get("gpus")):
            part = Part(gpu["serial"] or gpu["uuid"], "GPU", node, f"GPU {gpu['index']} ({gpu['name']})")
            found |= dict.fromkeys(((node, f"GPU {gpu['index']}"), (node, gpu["uuid"])), part)
        found |= {(node, nic["hca"]): Part(nic["serial"], "NIC", node, nic["hca"]) for nic in rows(said.get("nics")) if nic["serial"]}
    return found


def judge_health(node: str, before: Object | None, after: Object | None) -> Iterator[Verdict]:
    """``before`` and ``after`` the load of a round; None: the node did not tell."""
    where, gpus = VerdictSubject(node, None, None, "GPUs"), rows((after or {}).get("gpus"))
    earlier = {gpu["uuid"]: gpu for gpu in rows((before or {}).get("gpus"))}
    if not gpus:
        why = "the node did not tell" if after is None else "nvidia-smi shows no GPU, or does not answer"
        yield verdict("gpu.thermal", where, "unknown", "no slowdown", None, why)
    for uuid in earlier.keys() - {gpu["uuid"] for gpu in gpus} if after is not None else ():
        yield verdict("gpu.present", where._replace(subject=uuid), "fail", "there as before the round", "gone",
                      f"GPU {earlier[uuid]['index']} does not show any more; {len(gpus)} of {len(earlier)} do")
    for gpu in gpus:
        yield _thermal(where._replace(subject=f"GPU {gpu['index']}"), earlier.get(gpu["uuid"], {}), gpu)
        yield _memory(where._replace(subject=f"GPU {gpu['index']}"), earlier.get(gpu["uuid"], {}), gpu)
    if diag := mapping((after or {}).get("diag")):
        yield from _diagnosed(where, diag, gpus)


def grown(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> int | None:
    """Of a counter that begins anew with the driver; None where it was not read both times."""
    old, new = before.get(name), after[name]
    return None if old is None or new is None else new if new < old else new - old


def _thermal(where: VerdictSubject, before: Mapping[str, Any], gpu: Mapping[str, Any]) -> Verdict:
    margin = "" if gpu["margin_celsius"] is None else f", {gpu['margin_celsius']} below the limit,"
    heat = f"{gpu['celsius']} C{margin} when the round had ended"
    slowed = {kind: grown(before, gpu, f"{kind}_thermal_us") for kind in CLOCKS}
    told = [f"{CLOCKS[kind]} for {many / 1e6:.3f} s" for kind, many in slowed.items() if many]
    told = told or [CLOCKS[kind] for kind in CLOCKS if gpu[f"{kind}_thermal"]]
    if told:
        return verdict("gpu.thermal", where, "fail", "no slowdown", "slowed", f"too hot: clocks were lowered {', '.join(told)}; {heat}")
    if None not in slowed.values():
        return verdict("gpu.thermal", where, "pass", "no slowdown", "none", f"clocks were not lowered for heat; {heat}")
    return verdict("gpu.thermal", where, "unknown", "no slowdown", None, f"no counter of slowdowns was read before and after; {heat}")


def _memory(where: VerdictSubject, before: Mapping[str, Any], gpu: Mapping[str, Any]) -> Verdict:
    wrong, corrected = (grown(before, gpu, name) for name in ("uncorrected", "corrected"))
    if wrong is None or corrected is None:
        return verdict("gpu.ecc", where, "unknown", 0, None, "no count of ECC errors before and after: off, or not in this GPU")
    status = "fail" if wrong else "warn" if corrected else "pass"
    return verdict("gpu.ecc", where, status, 0, wrong, f"memory errors: {wrong} that ECC could not correct, {corrected} that it did")


def _diagnosed(where: VerdictSubject, diag: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    by_serial = {gpu["serial"]: gpu["index"] for gpu in gpus if gpu["serial"]}
    tested = ((by_serial.get(row["serial"], row["gpu"]), row) for row in rows(diag.get("results")))
    said = grouped(("GPUs" if index is None else f"GPU {index}", row) for index, row in tested)
    for subject, found in sorted(said.items()):
        status = min((row["status"] for row in found), key=WORST.index)
        text = "; ".join([f"{row['test']}: {row['text'] or status}" for row in found if row["status"] == status][:3])
        yield verdict("gpu.dcgm", where._replace(subject=subject), status, "every test passes", status, f"dcgmi diag -r 3: {text}")
    if not said:
        yield verdict("gpu.dcgm", where, "unknown", "every test passes", None, str(diag.get("why")))


def sums_of(ddp: Object | None, settings: object, parts: Parts) -> Object | None:
    """What a training ended with; None where not every rank told. ``key``: of what alone the same bits can be expected."""
    told = [] if ddp is None else ddp["checksums"]
    if ddp is None or not told or sorted(row["rank"] for row in told) != list(range(ddp["world_size"] or 0)):
        return None
    ranks = [(row["rank"], row["node"], row["device"], gpu_of(row, parts)) for row in told]
    same = [ranks, *(ddp[name] for name in ("hosts", "backend", "steps", "batch", "versions")), settings]
    key = hashlib.sha256(json.dumps(same, sort_keys=True, default=str).encode()).hexdigest()
    return {"key": key, "together": told[0]["together"], "alone": {str(row["rank"]): row["alone"] for row in told}}


def gpu_of(row: Mapping[str, Any], parts: Parts) -> Part | None:
    """By its UUID, where torch tells it: CUDA may number GPUs otherwise than nvidia-smi."""
    return parts.get((row["node"], f"GPU-{row['uuid']}" if row["uuid"] else f"GPU {row['gpu']}"))


def judge_bits(ddp: Object | None, own: Object | None, first: Object | None, parts: Parts) -> list[Verdict]:
    """One verdict on the job, and one on each GPU that differs. ``first``: of the first round with the same ranks and versions."""
    where = VerdictSubject("", None, None, "bits of the training")
    if ddp is None or own is None:
        why = "the training benchmark was not run, or did not end" if ddp is None else "not every rank told its checksums"
        return [verdict("ddp.repeatable", where, "unknown", SAME, None, why)]
    blamed, unclear = _odd(ddp)
    for row in ddp["checksums"] if first is not None else ():
        if mapping(first)["alone"].get(str(row["rank"])) != row["alone"]:
            blamed[row["rank"]].append(f"computes by itself other bits than in round {mapping(first)['number']}")
    found = []
    for row in ddp["checksums"]:
        if row["rank"] in blamed:
            part = gpu_of(row, parts)
            subject = f"GPU {row['gpu']}" if part is None else part.name.partition(" (")[0]
            found.append(verdict("ddp.repeatable", VerdictSubject(row["node"], None, None, subject), "fail", SAME, "other bits",
                                 f"rank {row['rank']} {', and '.join(blamed[row['rank']])}"))
    if first is not None and first["together"] != own["together"]:
        unclear.append(f"the training ended with other parameters than in round {first['number']}")
    if unclear or found:
        text = "; ".join(unclear) or f"{len(found)} of {len(ddp['checksums'])} ranks differ"
        return [verdict("ddp.repeatable", where, "fail", SAME, "other bits", text), *found]
    if first is None:
        return [verdict("ddp.repeatable", where, "unknown", SAME, None, "the first round: there is no other one to compare with yet")]
    return [verdict("ddp.repeatable", where, "pass", SAME, "the same bits", f"as in round {first['number']}, and on all ranks")]


def _odd(ddp: Object) -> tuple[dict[int, list[str]], list[str]]:
    """Rank -> in what it differs from most of its like; and what differs without a majority."""
    blamed, unclear = defaultdict(list), []
    equal = grouped((f"{row['device']} {ddp['versions'].get(row['node'])}", row) for row in ddp["checksums"])
    like: dict[str, dict[str, list[Object]]] = {"has other parameters than most ranks": {"": ddp["checksums"]},
                                                "computes by itself other bits than most equal GPUs": equal}
    for (text, groups), name in zip(like.items(), ("together", "alone"), strict=True):
        for members in groups.values():
            usual, many = Counter(row[name] for row in members).most_common(1)[0]
            differing = [row["rank"] for row in members if row[name] != usual]
            if many * 2 <= len(members) > 1:
                unclear.append(f"{len(members)} ranks differ and none is like most: {name}")
                continue
            for rank in differing:
                blamed[rank].append(text)
    return blamed, unclear
