# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl.conf as NCCL 2.30.7 reads it: setEnvFile of src/misc/param.cc, whose fgets has 4096 bytes and whose buffers 1024."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats.nccl_conf import conf_lines, conf_variables
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import observe_nccl


@pytest.mark.parametrize(("text", "variables"), [
    ("A=1\nA=2\n", {"A": "1"}),  # setenv without overwrite
    ("#B=1\n B=3\n#\n", {" B": "3"}),  # a comment in the first column only, and nothing trimmed
    ("C= x # y\r\n", {"C": " x # y"}),
    ("C=x\r\r\n", {"C": "x\r"}),  # one carriage return
    ("export D=1\n", {"export D": "1"}),
    ("E\n\n=F\n", {}),  # no =, and setenv takes no empty name
    ("G=a=b", {"G": "a=b"}),
    ("H=1\0I=2\nJ\0=3\nK=4\n", {"H": "1", "K": "4"}),
    ("L=a\x0bM=b\x1cN=c\u2028O=d\n", {"L": "a\x0bM=b\x1cN=c\u2028O=d"}),  # a line ends with a line feed alone
    ("P=" + "x" * 1024 + "\n", {"P": "x" * 1023}),
    ("Q" * 1024 + "=1\n", {"Q" * 1023: "1"}),
    ("R=" + "é" * 600 + "\n", {"R": "é" * 511 + "\ufffd"}),  # bytes, not letters
    ("S=" + "x" * 4093 + "T=1\nU=2\n", {"S": "x" * 1023, "T": "1", "U": "2"}),  # the rest of a line is one of its own
    ("V=" + "x" * 4093 + "\nW=2\n", {"V": "x" * 1023, "W": "2"}),
    ("", {}),
])  # fmt: skip
def test_what_nccl_takes(text: str, variables: dict[str, str]) -> None:
    assert conf_variables(text) == variables


def test_a_file_that_is_not_there_sets_nothing() -> None:
    assert conf_variables(None) == {}


def test_lines_have_their_number() -> None:
    assert [(line.number, line.name, line.value, line.returned) for line in conf_lines("#\n\nA=1\r\nB\n")] == [
        (3, "A", "1", True), (4, "B", None, False)]


def test_an_odd_first_assignment_hides_a_later_one(make_tree: Callable[[dict[str, str]], TreeHost]) -> None:
    """NCCL keeps the blank of line 1 and does not inspect line 2; an NCCL before 2.30 keeps the carriage return of line 3."""
    host = make_tree({"etc/nccl.conf": "NCCL_IB_TC=106 \nNCCL_IB_TC=106\nNCCL_DEBUG=WARN\r\nNCCL_IB_SL=3\n"})
    assert observe_nccl(host)["conf"] == {"variables": {"NCCL_DEBUG": "WARN", "NCCL_IB_SL": "3"}, "malformed_lines": [1, 3]}
