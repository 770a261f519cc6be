# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of the repository that mutate-roles and mutate-core make their faults in."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_repository(target: Path) -> None:
    """What git knows, as it is in the working tree, and the link by which Ansible and Python find the collection."""
    listed = subprocess.run(("git", "ls-files", "-co", "--exclude-standard", "-z"), cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    link = target / ".dev/ansible_collections/railwright/rdma"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../..")
