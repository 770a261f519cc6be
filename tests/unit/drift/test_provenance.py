# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when and by whom: file times are real, the package log is written from dpkg's documented format."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.provenance import RPM, SHOW, UNKNOWN, Origin, origins
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Subject

AT = time.mktime((2026, 11, 20, 13, 0, 7, 0, 0, -1))
LOG = """2026-11-20 12:59:59 startup archives unpack
2026-11-20 13:00:01 upgrade rdma-core:amd64 44.0-2 45.0-1
2026-11-20 13:00:02 status half-installed rdma-core:amd64 44.0-2
2026-11-20 13:00:05 remove perftest:amd64 23.04-1 <none>
"""


def change(kind: str, name: str) -> Change:
    return Change("area", "it", None, None, "none", "", "", (), Subject(kind, name))


def write(root: Path, path: str, text: str, at: float | None = None) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    if at is not None:
        os.utime(target, (at, at))


def origin(root: Path, what: str) -> Origin:
    kind, _blank, name = what.partition(" ")
    return origins(TreeHost(str(root)), [change(kind, name)]).get("area: it", UNKNOWN)


def test_a_file_has_its_time_and_nobody_where_no_package_was_set_up_then(tmp_path: Path) -> None:
    write(tmp_path, "/var/log/dpkg.log", LOG)
    write(tmp_path, "/etc/nccl.conf", "x", AT + 3600)
    assert origin(tmp_path, "file /etc/nccl.conf") == Origin(AT + 3600, "the file was changed")


def test_a_file_that_changed_with_a_package_names_it(tmp_path: Path) -> None:
    write(tmp_path, "/var/log/dpkg.log", LOG)
    write(tmp_path, "/etc/rdma.conf", "x", AT)
    assert origin(tmp_path, "file /etc/rdma.conf") == Origin(AT, "the file was changed at the time of remove of perftest 23.04-1")


def test_a_file_that_is_gone_has_no_record(tmp_path: Path) -> None:
    write(tmp_path, "/var/log/dpkg.log", LOG)
    assert origin(tmp_path, "file /etc/nccl.conf") == UNKNOWN


def test_a_package_has_the_last_line_of_dpkgs_logs(tmp_path: Path) -> None:
    write(tmp_path, "/var/log/dpkg.log.1", "2026-11-01 00:00:00 install rdma-core:amd64 <none> 44.0-2\n")
    assert origin(tmp_path, "package rdma-core").by == "install of rdma-core 44.0-2"
    write(tmp_path, "/var/log/dpkg.log", LOG)
    assert origin(tmp_path, "package rdma-core") == Origin(AT - 6, "upgrade of rdma-core to 45.0-1")
    assert origin(tmp_path, "package perftest") == Origin(AT - 2, "remove of perftest 23.04-1")


def test_rpm_is_asked_where_there_is_no_dpkg_by_recorded_output(tmp_path: Path) -> None:
    write(tmp_path, "/usr/bin/rpm", "")
    (tmp_path / "usr/bin/rpm").chmod(0o755)
    write(tmp_path, "/cmd/" + recording_name((*RPM, "rdma-core")), "1763640000 48.0-1.el9\n")
    write(tmp_path, "/cmd/" + recording_name((*RPM, "perftest")), "package perftest is not installed\n")
    assert origin(tmp_path, "package rdma-core") == Origin(1763640000.0, "install of rdma-core 48.0-1.el9")
    assert origin(tmp_path, "package perftest") == UNKNOWN


@pytest.mark.parametrize(("answer", "expected"), [("5000000", Origin(1005.0, "the unit changed its state")), ("0", UNKNOWN)])
def test_a_unit_has_systemds_time_by_recorded_output(tmp_path: Path, answer: str, expected: Origin) -> None:
    write(tmp_path, "/proc/stat", "cpu 1 2\nbtime 1000\n")
    write(tmp_path, "/cmd/" + recording_name((*SHOW, "openibd.service")), f"StateChangeTimestampMonotonic={answer}\n")
    assert origin(tmp_path, "unit openibd.service") == expected
