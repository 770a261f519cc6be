# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings are found wherever people write them, with their lines and with the value that NCCL would get."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.nccl.check import SEVERITIES, Source, check_source
from railwright.nccl.settings import Grammar, grammar_of, settings_of


def shell(text: str) -> list[tuple[int, str, str | None]]:
    return [(item.line, item.name, item.value) for item in settings_of(text, Grammar.SHELL)]


def conf(text: str) -> list[tuple[int, str, str | None]]:
    return [(item.line, item.name, item.value) for item in settings_of(text, Grammar.CONF)]


@pytest.mark.parametrize(("line", "found"), [
    ("export NCCL_DEBUG=INFO", [("NCCL_DEBUG", "INFO")]),
    ("NCCL_DEBUG=INFO NCCL_IB_TC=106 ./all_reduce_perf", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "106")]),
    ('export NCCL_IB_HCA="=mlx5_0,mlx5_1"', [("NCCL_IB_HCA", "=mlx5_0,mlx5_1")]),
    ("export NCCL_IB_HCA='^mlx5_2'; true", [("NCCL_IB_HCA", "^mlx5_2")]),
    ("export NCCL_IB_HCA==mlx5_0", [("NCCL_IB_HCA", "=mlx5_0")]),
    ('export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"', [("NCCL_DEBUG", "WARN")]),
    ("export NCCL_IB_HCA=$HCAS", [("NCCL_IB_HCA", None)]),
    ("export NCCL_IB_HCA=$(hcas)", [("NCCL_IB_HCA", None)]),
    ("mpirun -np 2 -x NCCL_IB_TC=106 -x NCCL_DEBUG ./a", [("NCCL_IB_TC", "106"), ("NCCL_DEBUG", None)]),
    ("docker run -e NCCL_DEBUG=INFO --env NCCL_IB_TC image", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", None)]),
    ("srun --export=ALL,NCCL_DEBUG=INFO,NCCL_IB_TC=41 ./a", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "41")]),
    ("#SBATCH --export=NCCL_DEBUG=INFO", [("NCCL_DEBUG", "INFO")]),
    ("ENV NCCL_DEBUG INFO", [("NCCL_DEBUG", "INFO")]),
    ("ENV NCCL_DEBUG=INFO NCCL_IB_TC=106", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "106")]),
    ("mpiexec -genv NCCL_DEBUG INFO -n 2 ./a", [("NCCL_DEBUG", "INFO")]),
    ('  NCCL_DEBUG: "INFO"  # all of it', [("NCCL_DEBUG", "INFO")]),
    ("  - NCCL_DEBUG=INFO", [("NCCL_DEBUG", "INFO")]),
    ('os.environ["NCCL_DEBUG"] = "INFO"', [("NCCL_DEBUG", "INFO")]),
    ("os.environ.setdefault('NCCL_IB_TC', '106')", [("NCCL_IB_TC", "106")]),
    ("# export NCCL_DEBUG=INFO", []),
    ("export NCCL_IB_TC=106 # NCCL_IB_SL=3", [("NCCL_IB_TC", "106")]),
    ('echo "# NCCL" NCCL_DEBUG=INFO', [("NCCL_DEBUG", "INFO")]),
    ("export MY_NCCL_DEBUG=INFO", []),
    ("echo $NCCL_DEBUG ${NCCL_DEBUG}", []),
    ("export TORCH_NCCL_BLOCKING_WAIT=1", []),
])
def test_one_line(line: str, found: list[tuple[str, str | None]]) -> None:
    assert sorted(item[1:] for item in shell(line)) == sorted(found)


def test_kubernetes_names_and_values_on_two_lines() -> None:
    assert shell('env:\n- name: NCCL_DEBUG\n  value: "INFO"\n- name: NCCL_IB_TC\n  valueFrom: x\n- name: OTHER\n  value: "1"\n') == [
        (3, "NCCL_DEBUG", "INFO"), (4, "NCCL_IB_TC", None)]


def test_lines_are_counted_from_one() -> None:
    assert shell("\n\nexport NCCL_DEBUG=INFO\n") == [(3, "NCCL_DEBUG", "INFO")]
    assert conf("# c\nNCCL_DEBUG=INFO\n") == [(2, "NCCL_DEBUG", "INFO")]


@pytest.mark.parametrize(("line", "value", "words"), [
    ("NCCL_DEBUG=INFO", "INFO", None),
    ("NCCL_IB_HCA==mlx5_0,mlx5_1", "=mlx5_0,mlx5_1", None),
    ('NCCL_DEBUG="INFO"', '"INFO"', "quotes"),
    ("NCCL_DEBUG=INFO # why", "INFO # why", "comment"),
    ("NCCL_DEBUG=INFO ", "INFO ", "blanks"),
    ("NCCL_DEBUG=INFO\r", "INFO", "carriage return"),
    ("\ufeffNCCL_DEBUG=INFO", "INFO", "byte order mark"),
    ("\ufeff# of Notepad\nNCCL_DEBUG=INFO", "INFO", None),
    ("export NCCL_DEBUG=INFO", "INFO", "not shell"),
    (" NCCL_DEBUG=INFO", "INFO", "variable named"),
    ("NCCL_DEBUG INFO", None, "no ="),
    (" # NCCL_DEBUG=INFO", None, "first column"),
    ("NCCL_GRAPH_FILE=" + "x" * 1024, "x" * 1024, "1023"),
])
def test_the_grammar_of_nccl_conf(line: str, value: str | None, words: str | None) -> None:
    (found,) = settings_of(line, Grammar.CONF)
    assert found.value == value
    assert [message for _severity, message, _fix in found.slips if words is not None and words in message] == [
        message for _severity, message, _fix in found.slips]
    assert bool(found.slips) == (words is not None)


@pytest.mark.parametrize(("path", "grammar"), [
    ("/etc/nccl.conf", "conf"), ("nccl.conf", "conf"), ("/root/.nccl.conf", "conf"), ("my-nccl.conf", "shell"),
    ("train.sh", "shell"), (".env", "shell"),
])
def test_the_files_name_decides(path: str, grammar: str) -> None:
    assert grammar_of(path) == grammar


@given(st.text() | st.text(alphabet="-bcei =1BKNCL_\\\n#'\"$all_reduce_perf", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_and_judged(text: str) -> None:
    for grammar in Grammar:
        found = tuple(settings_of(text + "\nall_reduce_perf -b 8\nNCCL_DEBUG=INFO\n-b=1B\n", grammar))
        assert all(item.line >= 1 for item in found)
        for item in check_source(Source("f", grammar, found)):
            assert item.severity in SEVERITIES
