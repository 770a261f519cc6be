# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether sshd lets in a user without a job: pam_slurm_adopt as Slurm's guide has it written, and as sites have it."""

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import logins_need_job

ADOPT = "account required pam_slurm_adopt.so"


@pytest.mark.parametrize(("files", "needed"), [
    ({}, False),
    ({"sshd": f"account include password-auth\n{ADOPT}\n", "password-auth": "account required pam_unix.so\n"}, True),
    ({"sshd": f"-{ADOPT} action_adopt_failure=deny\n"}, True),
    ({"sshd": "account [default=die success=ok] /lib/security/pam_slurm.so\n"}, True),
    ({"sshd": "@include common-account\n", "common-account": ADOPT}, True),
    ({"sshd": "account include sshd\n" + ADOPT}, True),
    ({"sshd": f"# {ADOPT}\naccount required pam_unix.so\n"}, False),
    ({"sshd": "session required pam_slurm_adopt.so\n"}, False),
    ({"sshd": "account optional pam_slurm_adopt.so\n"}, False),
    ({"sshd": f"{ADOPT} action_no_jobs=ignore\n"}, False),
    ({"sshd": f"account sufficient pam_access.so\n{ADOPT}\n"}, False),
    ({"sshd": f"account sufficient pam_localuser.so\n{ADOPT}\n"}, True),
])  # fmt: skip
def test_logins_need_a_job(tmp_path: Path, files: dict[str, str], needed: bool) -> None:
    (tmp_path / "etc/pam.d").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "etc/pam.d" / name).write_text(text)
    assert logins_need_job(TreeHost(str(tmp_path))) is needed
