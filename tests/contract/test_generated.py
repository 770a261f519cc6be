# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated files are up to date: `make generate` would change nothing."""

import subprocess
import sys

import repo


def test_generated_files_are_up_to_date() -> None:
    """The generator's own --check names each file that differs."""
    done = subprocess.run((sys.executable, "tools/generate", "--check"), cwd=repo.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_generator_would_notice() -> None:
    """A table of keys that no generated page repeats would make the check above worthless."""
    pages = "\n".join(repo.text(name) for name in repo.matching("docs/reference/", suffix=".md"))
    argument_specs = "\n".join(repo.text(name) for name in repo.matching("roles/", suffix="argument_specs.yml"))
    assert "rdma_bootstrap_interface" in pages
    assert "preflight_min_free_mb" in pages
    assert "preflight_min_free_mb" in argument_specs
