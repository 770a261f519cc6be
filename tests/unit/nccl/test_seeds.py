# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/seeds: what people copied from the five pages, the list that was gone through by hand, and what answers every claim."""

import re

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import qos_profile
from railwright.nccl.check import NcclFinding, Source, check_prefixes, check_source
from railwright.nccl.settings import Grammar, settings_of
from repo import ROOT

SEEDS = ROOT / "docs" / "seeds"
FILES = ("scnet.sh", "multi-node.sh", "infiniband.sh", "roce.sh", "erdma.sh")
Found = tuple[str, int, str, str]


def rows(first: str) -> list[list[str]]:
    """Cells of the tables whose rows begin so."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in (SEEDS / "README.md").read_text().splitlines()
            if line.startswith(first)]


def source(name: str) -> Source:
    return Source(name, Grammar.SHELL, tuple(settings_of((SEEDS / name).read_text(), Grammar.SHELL)))


def as_rows(findings: list[NcclFinding]) -> list[Found]:
    return sorted((item.file, item.line, item.variable, item.severity) for item in findings)


def reviewed(cells: list[list[str]]) -> list[Found]:
    return sorted((file.strip("`"), int(line), variable.strip("`"), severity) for file, line, variable, severity, *_why in cells)


PLAIN = reviewed(rows("| `"))
WITH_INVENTORY = reviewed([cells[1:] for cells in rows("| -i |")])


def test_the_files_are_those_of_the_list() -> None:
    assert sorted(path.name for path in SEEDS.glob("*.sh")) == sorted(FILES)


def test_the_documents_settings_have_the_reviewed_findings_and_no_others() -> None:
    assert as_rows([item for name in FILES for item in check_source(source(name))]) == PLAIN
    assert len(PLAIN) == 15


def test_an_inventory_adds_settings_of_its_qos_profile_and_its_prefixes() -> None:
    found = [item for name in FILES for item in check_source(source(name), qos_profile("dscp26-prio3")) + check_prefixes(source(name))]
    assert as_rows(found) == sorted(PLAIN + WITH_INVENTORY)


CLAIMS = [cells for cells in rows("| ") if len(cells) == 4 and cells[0] in ("Scnet", "several nodes", "InfiniBand", "eRDMA")]


@pytest.mark.parametrize("cells", CLAIMS, ids=[cells[1] for cells in CLAIMS])
def test_every_claim_is_answered_by_a_finding_or_by_bench(cells: list[str]) -> None:
    named = re.fullmatch(r"`([a-z-]+\.sh)` (\d+) `([\w-]+)`", cells[3])
    if named is None:
        assert re.search(r"bench|nccl log|role `nccl`", cells[3]), cells[3]
        return
    answered = {item[:3] for item in PLAIN + WITH_INVENTORY}
    assert (named.group(1), int(named.group(2)), named.group(3)) in answered


def test_no_finding_is_without_a_claim() -> None:
    claimed = {tuple(re.findall(r"`([^`]+)`", cells[3])) for cells in CLAIMS}
    assert {(file, variable) for file, _line, variable, _severity in PLAIN + WITH_INVENTORY} <= claimed
    assert len(CLAIMS) == 27


@pytest.mark.parametrize(("line", "found"), [
    ("./build/all_reduce_perf -b 1B -e 512M", [("-b", "error")]),
    ("all_gather_perf --minbytes=8 --maxbytes 1GiB", []),
    ("/opt/nccl-tests/build/alltoall_perf -b8 -e 8G -f 2 -g 1", []),
    ("alltoall_perf -b 8 -e 10T", [("-e", "error")]),
    ("sendrecv_perf -b eight", [("-b", "error")]),
    ("broadcast_perf -i 1x", [("-i", "error")]),
    ("all_reduce_perf -b -8", [("-b", "error")]),
    ("all_reduce_perf -b 8 --check 0", [("-c", "warning")]),
    ("all_reduce_perf -b $MIN -e ${MAX} -c `n`", []),
    ("all_reduce_perf -b 1M; other_tool -b 1B", []),
    ("all_reduce_perf -b 1M && echo -e 1B", []),
    ("all_reduce_perf -b 1M > log -e 1B", []),
    ("my_all_reduce_perf_wrapper -b 1B", []),
    ("# all_reduce_perf -b 1B", []),
    ("subprocess.run(['all_reduce_perf', '-b', '1B'])", [("-b", "error")]),
    ("mpirun -np 2 -x NCCL_DEBUG=INFO bash -c 'all_reduce_perf -b 1B'", [("-b", "error")]),
])
def test_options_of_nccl_tests(line: str, found: list[tuple[str, str]]) -> None:
    items = check_source(Source("job.sh", Grammar.SHELL, tuple(settings_of(line + "\n", Grammar.SHELL))))
    assert [(item.variable, item.severity) for item in items] == found


def test_the_refusal_says_why_what_to_write_and_the_line_of_the_option() -> None:
    text = "mpirun -np 2 \\\n  ./all_reduce_perf \\\n  -e 1G \\\n  -b 1B\necho -b 2B\n"
    (item,) = check_source(Source("job.sh", Grammar.SHELL, tuple(settings_of(text, Grammar.SHELL))))
    assert (item.line, item.variable, item.replacement) == (4, "-b", "-b 1")
    assert "takes digits and one of K, M, G" in item.message
    assert "invalid size specified for 'minbytes'" in item.message


def test_nccl_conf_has_no_command_lines() -> None:
    assert check_source(Source("nccl.conf", Grammar.CONF, tuple(settings_of("-b=1B\nX=all_reduce_perf -b 1B\n", Grammar.CONF)))) == []
