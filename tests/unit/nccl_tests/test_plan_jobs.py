# SPDX-License-Identifier: GPL-3.0-or-later
"""From looks and wishes to command lines: who launches, how many ranks, which variables, and what is refused before anything starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import Site, above_ceiling, ceiling_of, floor_of, least
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.sizes import fitting, sizes_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import bytes_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.machine import machine_of
from bench_nodes import H200, node, wishes

RUN = "20260101T000000Z-abc123"
ACCEPTANCE = {"nccl_tests_purpose": "acceptance", "nccl_tests_groups": ["all"]}
DIRECTORY = f"/run/railwright/bench/{RUN}"


def planned(*nodes: Node) -> dict[str, Any]:
    found = plan_run(nodes, RUN)
    assert found["problems"] == []
    return found


def pair(gpus: int = 8, **inventory: Any) -> tuple[Node, Node]:
    return node("n1", gpus, inventory=inventory), node("n2", gpus, inventory=inventory)


def after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def exported(job: dict[str, Any], start: str = "n1") -> dict[str, str]:
    """The variables that mpirun hands on, by their names; it has them itself."""
    argv = job["argv"][start]
    return {argv[at + 1]: job["environment"][start][argv[at + 1]] for at, word in enumerate(argv) if word == "-x"}


def test_one_node_runs_locally_with_all_its_gpus() -> None:
    plan = planned(node("n1"))
    argv = plan["jobs"][0]["argv"]["n1"]
    assert (plan["kind"], plan["launcher"], plan["launch"], plan["ranks"], plan["between_nodes"]) == ("local", "local", ["n1"], 8, False)
    assert after(argv, "-g") == "8"
    assert "/opt/nccl-tests/all_reduce_perf" in argv
    variables = plan["jobs"][0]["environment"]["n1"]
    assert variables["LD_LIBRARY_PATH"] == "/opt/nccl/lib"
    assert not {"NCCL_NET", "NCCL_ALGO", "NCCL_IGNORE_NET_MISMATCH"} & set(variables)


def test_one_node_under_mpirun_needs_no_name_that_others_know() -> None:
    assert planned(node("n1", inventory={"nccl_tests_launcher": "mpi"}))["hostfile"] == "localhost slots=8\n"


def test_two_nodes_are_launched_by_mpirun_with_a_rank_for_each_gpu() -> None:
    plan = planned(*pair())
    argv = plan["jobs"][0]["argv"]["n1"]
    assert (plan["kind"], plan["launcher"], plan["launch"], plan["per_node"], plan["ranks"]) == ("openmpi4", "mpi", ["n1"], 8, 16)
    assert plan["hostfile"] == "n1 slots=8\nn2 slots=8\n"
    assert argv[0] == "/usr/bin/mpirun"
    assert after(argv, "-np") == "16"
    assert after(argv, "-g") == "1"
    assert after(argv, "-J") == f"{DIRECTORY}/all_reduce.json"
    assert after(argv, "btl_tcp_if_include") == "eth0"
    variables = exported(plan["jobs"][0])
    assert variables["RAILWRIGHT_BENCH"] == RUN
    assert variables["NCCL_NET"] == "IB", "a silent fallback is an error"
    assert variables["NCCL_ALGO"] == "Ring"
    assert variables["NCCL_DEBUG"] == "INFO"
    assert variables["NCCL_DEBUG_FILE"] == f"{DIRECTORY}/nccl.all_reduce.%h.%p.log"
    assert variables["NCCL_TOPO_DUMP_FILE"] == f"{DIRECTORY}/nccl_topo.xml"
    assert "NCCL_NVLS_ENABLE" not in variables


def test_every_rank_has_a_life_of_its_own() -> None:
    """An mpirun that is killed may leave ranks on other nodes: those end a little later by themselves."""
    job = planned(*pair(nccl_tests_timeout_s=100))["jobs"][0]
    argv = job["argv"]["n1"]
    at = argv.index("timeout")
    assert argv[at:at + 4] == ["timeout", "-k", "10", "130"]
    assert job["seconds"] == 100
    assert job["polls"] * 5 > 100, "it is asked for until after its time is over"


def test_a_process_a_node_drives_all_its_gpus() -> None:
    plan = planned(*pair(nccl_tests_ranks="node"))
    argv = plan["jobs"][0]["argv"]["n1"]
    assert plan["hostfile"] == "n1 slots=1\nn2 slots=1\n"
    assert (after(argv, "-np"), after(argv, "-g"), plan["ranks"]) == ("2", "8", 16)


def test_locally_each_node_runs_by_itself() -> None:
    plan = planned(*pair(nccl_tests_launcher="local"))
    assert plan["launch"] == ["n1", "n2"]
    assert set(plan["jobs"][0]["argv"]) == {"n1", "n2"}
    assert after(plan["jobs"][0]["argv"]["n2"], "-g") == "8"
    assert not plan["between_nodes"]


def slurm(**inventory: Any) -> tuple[Node, Node]:
    tools = {"srun": "/usr/bin/srun", "sinfo": "/usr/bin/sinfo", "scancel": "/usr/bin/scancel"}
    wanted = {"nccl_tests_launcher": "slurm", **inventory}
    return node("n1", inventory=wanted), node("n2", inventory=wanted, slurm=tools)


def test_no_variable_of_the_inventory_is_in_a_command_line() -> None:
    """Nor in the command line of the probe, nor in what a node is asked to run by itself."""
    secret = {"nccl_tests_environment": {"HF_TOKEN": "s3cret"}}
    for launcher in ("local", "mpi", "slurm"):
        plan = planned(*slurm(**secret, nccl_tests_launcher=launcher, nccl_tests_slurm_host="n2"))
        for job in (*plan["jobs"], plan["probe"]):
            assert "s3cret" not in json.dumps(job["argv"])
        assert [plan["jobs"][0]["environment"][start]["HF_TOKEN"] for start in plan["launch"]] == ["s3cret"] * len(plan["launch"])


def test_slurm_is_called_where_it_is_and_knows_nodes_by_their_short_names() -> None:
    plan = planned(*slurm(nccl_tests_slurm_host="n2", nccl_tests_slurm_options=["--partition=gpu"]))
    argv = plan["jobs"][0]["argv"]["n2"]
    assert (plan["launch"], plan["cancel"]) == (["n2"], f"railwright-{RUN}")
    assert after(argv, "--nodelist") == "n1,n2"
    assert after(argv, "--job-name") == f"railwright-{RUN}"
    assert argv.index("--partition=gpu") < argv.index("timeout")
    assert plan["jobs"][0]["environment"]["n2"]["RAILWRIGHT_BENCH"] == RUN


@pytest.mark.parametrize(("host", "words"), [(None, "n1 has no srun"), ("n9", "n9 is not part of this run; allowed: n1, n2")])
def test_slurm_must_be_there(host: str | None, words: str) -> None:
    assert words in plan_run(slurm(nccl_tests_slurm_host=host), RUN)["problems"][0]


def test_the_probe_is_started_in_place_of_every_rank() -> None:
    probe = planned(*pair())["probe"]
    argv = probe["argv"]["n1"]
    assert argv[-3:] == ["/usr/bin/python3", "-I", f"{DIRECTORY}/probe.py"]
    assert after(argv, "-np") == "16"
    assert exported(probe)["RAILWRIGHT_BENCH"] == RUN
    mixed = planned(node("n1"), node("n2", python="/usr/libexec/platform-python"))["probe"]["argv"]["n1"]
    assert mixed[-3] == "python3"


def test_without_gpus_the_launcher_is_proven_all_the_same() -> None:
    plan = planned(*pair(0))
    assert plan["jobs"] == []
    assert after(plan["probe"]["argv"]["n1"], "-np") == "2"
    assert planned(node("n1"), node("n2", 0))["jobs"] == []


def test_without_a_launcher_nothing_is_started_for_a_node_without_gpus() -> None:
    plan = planned(node("n1", 0))
    assert (plan["probe"], plan["jobs"]) == (None, [])


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((node("n1", 8), node("n2", 4)), "equally many GPUs: n1 has 8, n2 has 4"),
        ((node("n1"), node("n2", mpi=[])), "n2 has no mpirun: set mpi_install or mpi_prefix"),
        ((node("n1"), node("n2", mpi=[{"kind": "mpich", "version": "4.0", "prefix": "/usr", "mpirun": "/usr/bin/mpirun"}])),
         "the nodes' MPI must be one: n1 has openmpi4 in /usr, n2 has mpich in /usr"),
        ((node("n1"), node("n2", directory="/elsewhere")), "nccl_tests_path must be the same on every node"),
        ((node("n1"), node("n2", inventory={"nccl_tests_purpose": "soak"})),
         "nccl_tests_purpose must be the same on every node: n1 has quick, n2 has soak"),
        ((node("n1", inventory={"nccl_tests_environment": {"A": "1", "TOKEN": "s3cret"}}),
          node("n2", inventory={"nccl_tests_environment": {"A": "1", "TOKEN": "other"}})),
         "nccl_tests_environment must be the same on every node: TOKEN differs"),
        ((node("n1"), node("n2", user="other")), "n1 has mpi, n2 has other; set nccl_tests_user"),
        ((node("n1", problems=["all_reduce_perf: not in /opt/nccl-tests"]),), "n1: all_reduce_perf: not in /opt/nccl-tests"),
        ((), "no node is left"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(nodes: tuple[Node, ...], words: str) -> None:
    found = plan_run(nodes, RUN)
    assert any(words in text for text in found["problems"])
    assert found["jobs"] == []


def test_a_common_mpi_is_enough() -> None:
    other = {"kind": "mpich", "version": "4.0", "prefix": "/opt/mpich", "mpirun": "/opt/mpich/bin/mpirun"}
    first = node("n1")
    assert planned(first, node("n2", mpi=[other, *first.seen["mpi"]]))["kind"] == "openmpi4"


def test_a_foreign_mpi_brings_its_libraries_along() -> None:
    mpi = [{"kind": "openmpi5", "version": "5.0.8", "prefix": "/opt/openmpi", "mpirun": "/opt/openmpi/bin/mpirun"}]
    job = planned(node("n1", mpi=mpi), node("n2", mpi=mpi))["jobs"][0]
    assert exported(job)["LD_LIBRARY_PATH"] == "/opt/nccl/lib:/opt/openmpi/lib"


def test_root_was_the_operators_choice() -> None:
    probe = planned(node("n1", user="root"), node("n2", user="root"))["probe"]
    assert probe["environment"]["n1"]["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in planned(*pair())["probe"]["environment"]["n1"]


@pytest.mark.parametrize(
    ("interfaces", "expected"),
    [
        (({"name": "eth0", "networks": []}, {"name": "eth0", "networks": []}), "eth0"),
        (({"name": "eth0", "networks": ["192.0.2.0/24"]}, {"name": "ens3", "networks": ["192.0.2.0/24"]}), "192.0.2.0/24"),
        (({"name": "eth0", "networks": ["192.0.2.0/24"]}, {"name": "ens3", "networks": ["198.51.100.0/24"]}), None),
        (({"name": "eth0", "networks": []}, None), None),
    ],
)
def test_the_launcher_speaks_over_what_the_nodes_share(interfaces: tuple[Any, Any], expected: str | None) -> None:
    argv = planned(node("n1", interface=interfaces[0]), node("n2", interface=interfaces[1]))["jobs"][0]["argv"]["n1"]
    assert ("btl_tcp_if_include" in argv) is (expected is not None)
    assert expected is None or after(argv, "btl_tcp_if_include") == expected


@pytest.mark.parametrize(
    ("inventory", "conf", "expected"),
    [
        ({}, [], ("IB", "Ring", "0")),
        ({"nccl_tests_network": "rdma"}, [], ("IB", "Ring", "0")),
        ({"nccl_tests_network": "any"}, [], (None, "Ring", None)),
        ({}, ["NCCL_NET"], (None, "Ring", None)),
        ({"transport": "aws-ofi-nccl"}, [], (None, "Ring", None)),
        ({}, ["NCCL_ALGO"], ("IB", None, "0")),
        ({"nccl_tests_algorithm": "any"}, [], ("IB", None, "0")),
        ({"nccl_tests_algorithm": "Tree"}, [], ("IB", "Tree", "0")),
        ({"nccl_tests_environment": {"NCCL_NET": "IBext_v9", "NCCL_ALGO": "NVLSTree"}}, [], ("IBext_v9", "NVLSTree", "0")),
    ],
)
def test_variables_between_nodes(inventory: dict[str, Any], conf: list[str], expected: tuple[str | None, ...]) -> None:
    nodes = [node(name, inventory=inventory, nccl_conf=conf) for name in ("n1", "n2")]
    variables = planned(*nodes)["jobs"][0]["variables"]["n1"]
    assert tuple(variables.get(name) for name in ("NCCL_NET", "NCCL_ALGO", "NCCL_IGNORE_NET_MISMATCH")) == expected


@pytest.mark.parametrize("plugins", [["/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so"], ["ofi"]])
def test_nothing_is_forced_where_a_plugin_loads_on_any_node(plugins: list[str]) -> None:
    """NCCL_NET=IB names NCCL's own transport: a plugin's is IBext_v10, and the run measured another network than jobs use."""
    variables = planned(node("n1"), node("n2", net_plugins=plugins))["jobs"][0]["variables"]["n1"]
    assert not {"NCCL_NET", "NCCL_IGNORE_NET_MISMATCH"} & set(variables)


def test_an_algorithm_is_asked_only_of_collectives_that_have_it() -> None:
    """NCCL ends a run with an algorithm that its collective does not have."""
    nodes = pair(nccl_tests_algorithm="Tree", nccl_tests_collectives=["all_reduce", "all_gather"])
    jobs = planned(*nodes)["jobs"]
    assert [job["variables"]["n1"].get("NCCL_ALGO") for job in jobs] == ["Tree", None]


def test_three_nodes_choose_their_algorithm() -> None:
    assert "NCCL_ALGO" not in planned(node("n1"), node("n2"), node("n3"))["jobs"][0]["variables"]["n1"]


def test_a_program_without_json_is_not_asked_for_it() -> None:
    old = [{"name": "all_reduce_perf", "path": "/x", "sha256": None, "json": False, "problem": None}]
    assert "-J" not in planned(node("n1"), node("n2", programs=old))["jobs"][0]["argv"]["n1"]


GIB = 1 << 30
A100, H100, B300 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA B300 SXM6 AC"
BETWEEN = "0.8 of 400 GB/s, limited by 8 NICs of 400 Gb/s"


def site(nodes: int = 1, gpu: str = "NVIDIA H200", *, gpus: int = 8, rails: int = 8, rate: float | None = 400.0, **more: Any) -> Site:
    """Nodes of GPUs of one kind; links that nobody read are the boards'."""
    ports = [{"name": f"rail{at}", "ports": [{"rate_gbps": rate or 400.0}]} for at in range(rails)]
    machine = machine_of({"gpus": [{"pci": f"gpu{at}", "name": gpu} for at in range(gpus)], "hcas": ports},
                         rails={port["name"]: port["name"] for port in ports})
    more.setdefault("largest", 16 * GIB)
    return Site((machine,) * nodes, rate is not None, **{"algorithm": "" if nodes == 1 else "Ring", **more})


@pytest.mark.parametrize(
    ("collective", "minimum", "wanted", "floor", "source"),
    [
        ("all_reduce", {"all_reduce": 345}, site(), 345.0, "nccl_tests_min_busbw"),
        ("all_reduce", {}, site(), 431.4, "0.88 of 490.28 GB/s, limited by NVLink (18 links a GPU), added up in the switches"),
        ("all_reduce", {}, site(gpu=A100), 223.2, "0.93 of 240 GB/s, limited by NVLink (12 links a GPU)"),
        ("all_reduce", {}, site(gpu="NVIDIA B200"), 763.5, "0.8 of 954.38 GB/s"),
        ("all_reduce", {}, site(gpus=2), 326.3, "0.88 of 370.8 GB/s, limited by NVLink (18 links a GPU)"),
        ("all_gather", {}, site(gpus=2), 278.1, "0.75 of 370.8"),
        ("alltoall", {}, site(), 278.1, "0.75 of 370.8"),
        ("all_gather", {"all_gather": 300.5}, site(), 300.5, "nccl_tests_min_busbw"),
        ("all_reduce", {}, site(2), 320.0, BETWEEN),
        ("reduce_scatter", {}, site(16), 320.0, BETWEEN),
        ("all_reduce", {}, site(2, gpus=2, rails=2), 80.0, "0.8 of 100 GB/s, limited by 2 NICs of 400 Gb/s"),
        ("all_reduce", {}, site(2, H100, rails=16, rate=200.0), 320.0, "0.8 of 400 GB/s, limited by 16 NICs of 200 Gb/s"),
        ("all_reduce", {}, site(2, A100, rails=16, rate=100.0), 160.0, "0.8 of 200 GB/s, limited by 16 NICs of 100 Gb/s"),
        ("all_reduce", {}, site(2, A100), 184.4, "0.8 of 230.46 GB/s, limited by PCIe 4.0 x16 of GPU gpu0 and 7 more"),
        ("all_reduce", {}, site(2, rate=None), None, "expect.rate_gbps"),
        ("all_reduce", {}, site(2, rails=0), None, "expect.rate_gbps"),
        ("all_reduce", {}, site(17), None, "too few figures are published for all_reduce over 17 nodes"),
        ("alltoall", {}, site(2), None, "too few figures are published for alltoall over 2 nodes"),
    ],
)
def test_floors(collective: str, minimum: dict[str, float], wanted: Site, floor: float | None, source: str) -> None:
    found = floor_of(collective, minimum, wanted)
    assert found.gbs == floor
    assert source in found.source


@pytest.mark.parametrize(
    ("wanted", "floor", "why"),
    [
        (site(2, algorithm=""), 420.2, "0.8 of 525.3 GB/s, limited by NVLink (18 links a GPU), added up in the switches"),
        (site(2, H100, rate=200.0, algorithm=""), 300.0, "0.8 of 375 GB/s, limited by 8 NICs of 200 Gb/s"),
        (site(2, "NVIDIA B200", algorithm=""), 600.0, "0.8 of 750 GB/s, limited by 8 NICs of 400 Gb/s"),
        (site(2, A100, algorithm=""), None, "too few figures are published for NVIDIA A100-SXM4-80GB where NCCL chooses"),
        (site(2, B300, algorithm=""), None, "too few figures are published for NVIDIA B300 SXM6 AC where NCCL chooses"),
        (site(2, H100, rails=16, algorithm=""), None, "half of the NICs could reach 525.3 GB/s over a tree: only a ring is bound"),
        (site(2, algorithm="Tree"), None, "only a ring is bound by the NICs, and NCCL_ALGO=Tree is set"),
        (site(3, algorithm="Tree"), None, "only a ring"),
        (site(3, algorithm=""), 320.0, BETWEEN),
        (site(algorithm="Ring"), 326.3, "0.88 of 370.8 GB/s"),
        (site(algorithm="Tree"), None, "Tree does no all_reduce here"),
        (site(gpu=H100, algorithm="nccl.conf sets NCCL_ALGO"), None, "nccl.conf sets NCCL_ALGO"),
    ],
)
def test_a_floor_follows_the_algorithm(wanted: Site, floor: float | None, why: str) -> None:
    """A ring of eight H100 reaches 370 GB/s where NVLS reaches 480; a tree over two nodes passes twice what the NICs carry."""
    found = floor_of("all_reduce", {}, wanted)
    assert found.gbs == floor
    assert why in found.source


@pytest.mark.parametrize("gpu", [H100, "NVIDIA H200", "NVIDIA B200"])
@pytest.mark.parametrize("algorithm", ["", "Ring"])
@pytest.mark.parametrize(("rails", "rate"), [(8, 400.0), (8, 200.0), (4, 400.0), (2, 400.0)])
def test_no_pair_on_half_its_nics_reaches_its_floor(gpu: str, algorithm: str, rails: int, rate: float) -> None:
    """Whatever NCCL may use: the best that half of the NICs, or all at half their rate, can reach is below the floor."""
    floor = floor_of("all_reduce", {}, site(2, gpu, rails=rails, rate=rate, algorithm=algorithm)).gbs
    assert floor is not None
    fewer, slower = (site(2, gpu, rails=number, rate=each, algorithm=algorithm) for number, each in ((rails // 2, rate), (rails, rate / 2)))
    assert max(ceiling_of("all_reduce", fewer).gbs or 0.0, ceiling_of("all_reduce", slower).gbs or 0.0) < floor


def test_b300_is_judged_from_its_plateau_on() -> None:
    """At 1 GiB NVLink 5 carries 681 to 724 of the 847 GB/s that it carries at 8 GiB: a healthy node would miss its floor there."""
    found = floor_of("all_reduce", {}, site(gpu=B300, largest=4 * GIB))
    assert (found.gbs, found.judged_from) == (763.5, 4 * GIB)
    early = floor_of("all_reduce", {}, site(gpu=B300, largest=2 * GIB))
    assert (early.gbs, "hold from 4 GiB on, and this run ends at 2048 MiB" in early.source) == (None, True)
    assert floor_of("all_reduce", {}, site(gpu="NVIDIA B200", largest=2 * GIB)).judged_from == GIB
    assert floor_of("all_reduce", {"all_reduce": 700}, site(gpu=B300)).judged_from == 4 * GIB


@pytest.mark.parametrize("nodes", [1, 2])
def test_below_a_gibibyte_there_is_no_floor_but_the_operators(nodes: int) -> None:
    small = site(nodes, largest=256 << 20)
    found = floor_of("all_reduce", {}, small)
    assert found.gbs is None
    assert "hold from 1 GiB on, and this run ends at 256 MiB" in found.source
    assert floor_of("all_reduce", {"all_reduce": 300}, small).gbs == 300.0


NO_SHARE = ("NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H200 NVL",
            "NVIDIA GB200", "NVIDIA GB300", "NVIDIA L40S", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "NVIDIA H200\n| x", "x NVIDIA H200", "")


@pytest.mark.parametrize("name", NO_SHARE)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_board_with_too_few_published_figures_has_no_floor(name: str, nodes: int) -> None:
    found = floor_of("all_reduce", {}, site(nodes, name))
    assert found.gbs is None
    assert "\n" not in found.source
    assert "nccl_tests_min_busbw sets a floor" in found.source


@pytest.mark.parametrize("name", [A100, "A100-SXM4-40GB", H100, "NVIDIA H200", B300, "NVIDIA B200"])
def test_boards_are_found_by_their_whole_name(name: str) -> None:
    assert floor_of("all_reduce", {}, site(gpu=name)).gbs is not None


def test_a_floor_above_the_ceiling_is_found_before_anything_is_started() -> None:
    plan = plan_run([node("n1", inventory={"nccl_tests_min_busbw": {"all_reduce": 5000}})], RUN)
    (problem,) = plan["problems"]
    assert problem.startswith("nccl_tests_min_busbw: all_reduce: 5000 GB/s is more than these nodes can reach: 490.28 GB/s, limited by")
    assert above_ceiling("all_reduce", floor_of("all_reduce", {"all_reduce": 5000}, site(2, gpu="NVIDIA GB300"))) is None, "nobody knows"


def test_a_link_that_is_narrow_by_design_lowers_the_floor() -> None:
    def narrow(best: int) -> list[dict[str, Any]]:
        link = {"device": "nic", "port": "up", "speed_gts": 16.0, "width": 8, "best_speed_gts": 16.0, "best_width": best}
        return [{"pci": f"nic{at}", "rail": f"rail{at}", "numa_node": 0, "links": [{**link, "device": f"nic{at}"}]} for at in range(8)]

    by_width = {}
    for best in (8, 16):
        nodes = (node(name, inventory=ACCEPTANCE, places=narrow(best)) for name in ("n1", "n2"))
        by_width[best] = planned(*nodes)["jobs"][0]["floors"]["n1"]
    assert by_width[8].gbs < by_width[16].gbs
    assert "PCIe 4.0 x8 of rail0" in by_width[8].source
    assert "PCIe 4.0 x16 of rail0" in by_width[16].source


@pytest.mark.parametrize(
    ("inventory", "conf", "floor", "why"),
    [
        ({}, [], 320.0, BETWEEN),
        ({"nccl_tests_algorithm": "Tree"}, [], None, "NCCL_ALGO=Tree is set"),
        ({"nccl_tests_algorithm": "any"}, [], 420.2, "0.8 of 525.3 GB/s"),
        ({"nccl_tests_algorithm": "any", "nccl_tests_environment": {"NCCL_NVLS_ENABLE": "0"}}, [], None, "NCCL_NVLS_ENABLE=0 is set"),
        ({"nccl_tests_algorithm": "any", "nccl_tests_environment": {"NCCL_NVLS_ENABLE": "1"}}, [], 420.2, "0.8 of 525.3 GB/s"),
        ({"nccl_tests_environment": {"NCCL_ALGO": "ring"}}, ["NCCL_ALGO"], 320.0, BETWEEN),
        ({}, ["NCCL_ALGO"], None, "nccl.conf sets NCCL_ALGO"),
        ({"nccl_tests_algorithm": "any"}, ["NCCL_COLLNET_ENABLE"], None, "nccl.conf sets NCCL_COLLNET_ENABLE"),
        ({"gpudirect_path": "none"}, [], None, "without GPUDirect RDMA"),
        ({"nccl_tests_purpose": "quick"}, [], None, "ends at 256 MiB"),
        ({"nccl_tests_begin": "300M", "nccl_tests_end": "1G", "nccl_tests_factor": 10}, [], None, "ends at 300 MiB"),
    ],
)
def test_the_plan_gives_each_job_its_floor(inventory: dict[str, Any], conf: list[str], floor: float | None, why: str) -> None:
    wanted = {**ACCEPTANCE, **inventory}
    found = planned(*(node(name, inventory=wanted, nccl_conf=conf) for name in ("n1", "n2")))["jobs"][0]["floors"]["n1"]
    assert found.gbs == floor
    assert why in found.source


def test_gpus_of_every_node_count() -> None:
    """The first node's alone were asked."""
    other = node("n2", inventory=ACCEPTANCE)
    other.seen["cuda"]["devices"][7][0] = "NVIDIA H20"
    found = planned(node("n1", inventory=ACCEPTANCE), other)["jobs"][0]["floors"]["n1"]
    assert found[0] is None
    assert "GPUs of several kinds" in found[1]


def test_the_slowest_node_decides_and_an_unknown_one_decides_nothing() -> None:
    assert least([400, 200]) == 200
    assert least([400, None]) is None
    assert least([]) is None


@pytest.mark.parametrize(("text", "expected"), [("8", 8), ("32M", 32 << 20), ("16G", 16 << 30), ("4k", 4096), ("1g", 1 << 30)])
def test_sizes_as_nccl_tests_reads_them(text: str, expected: int) -> None:
    assert bytes_of(text) == expected


@pytest.mark.parametrize(
    ("begin", "end", "factor", "memory", "expected"),
    [
        (8, 1 << 34, 2, [H200], (8, 1 << 34)),
        (8, 1 << 34, 2, [16 << 30, H200], (8, 1 << 32)),  # 5 GiB a buffer
        (8, 1 << 34, 10, [16 << 30], (8, 800000000 * 1)),
        (1 << 34, 1 << 34, 2, [16 << 30], (1 << 34, 1 << 34)),  # the program says better what is free
        (8, 1 << 34, 2, [], (8, 1 << 34)),
    ],
)
def test_no_larger_than_memory(begin: int, end: int, factor: int, memory: list[int], expected: tuple[int, int]) -> None:
    found = fitting(begin, end, factor, memory, 3)
    assert found[0] == expected[0]
    assert found[1] == expected[1] or (factor == 10 and found[1] * factor > (15 << 30) // 3 >= found[1])


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, (1 << 20, 1 << 28, 2, 20, 5, 1)),
        ({"nccl_tests_purpose": "acceptance", "nccl_tests_check": False}, (8, 1 << 34, 2, 20, 5, 0)),
        ({"nccl_tests_begin": "1G", "nccl_tests_end": "4G", "nccl_tests_factor": 4, "nccl_tests_iterations": 7, "nccl_tests_warmup": 0},
         (1 << 30, 1 << 32, 4, 7, 0, 1)),
        ({"nccl_tests_begin": "1G"}, (1 << 30, 1 << 30, 2, 20, 5, 1)),
    ],
)
def test_purpose_and_keys(keys: dict[str, Any], expected: tuple[int, ...]) -> None:
    found = sizes_of(wishes(**keys), [H200], 8)
    assert tuple(found)[:6] == expected
    assert found.gpus == 8


SLURM = {"srun": "/usr/bin/srun", "sinfo": None, "scancel": None}


def test_where_logins_need_a_job_srun_starts_the_ranks() -> None:
    """pam_slurm_adopt on one of the nodes is enough: mpirun logs into every one."""
    nodes = (node("n1", slurm=SLURM), node("n2", needs_job=True))
    plan = planned(*nodes)
    assert (plan["kind"], plan["launcher"]) == ("slurm", "slurm")
    said = "n2: pam_slurm_adopt refuses ssh logins of users without a job, so mpirun fails; set nccl_tests_launcher: slurm (srun)"
    for refused in ((node("n1"), nodes[1]), tuple(item._replace(wishes={**item.wishes, "nccl_tests_launcher": "mpi"}) for item in nodes)):
        assert plan_run(refused, RUN)["problems"] == [said]
    assert planned(nodes[1])["kind"] == "local"


def test_root_is_accepted_only_where_every_node_does() -> None:
    nodes = pair(root=True)
    assert planned(*nodes)["root"] is True
    assert planned(nodes[0], node("n2"))["root"] is False
