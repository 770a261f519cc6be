# SPDX-License-Identifier: GPL-3.0-or-later
"""Every platform's text for every profile, as it was reviewed.

After a change that is meant: ``PYTHONPATH=.dev:src:tests/lib python tests/unit/switch_hints/test_golden.py``, and read the diff.
"""

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, qos_profile
from railwright.switch_hints import PLATFORMS, hints

GOLDEN = Path(__file__).resolve().parent / "golden"
NAMES = [f"{system}-{profile.name}" for system in PLATFORMS for profile in QOS_PROFILES]


def reviewed(name: str) -> str:
    """The whole text; a golden file has a licence line of its own above it."""
    system, _dash, profile_name = name.partition("-")
    profile = qos_profile(profile_name)
    assert profile is not None
    return "\n".join([f"{PLATFORMS[system].comment} SPDX-License-Identifier: GPL-3.0-or-later", *hints(system, profile)]) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    assert reviewed(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_pasted_anywhere(name: str) -> None:
    """Consoles of switches know ASCII, and nothing that moves a cursor."""
    for line in reviewed(name).split("\n"):
        assert line.isascii()
        assert line.isprintable()
        assert line == line.rstrip()
        assert len(line) <= 140


def test_there_is_no_other_golden_file() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(NAMES)


if __name__ == "__main__":
    for item in NAMES:
        (GOLDEN / f"{item}.txt").write_text(reviewed(item), encoding="utf-8")
