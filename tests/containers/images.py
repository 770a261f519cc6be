# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds what scenarios boot, so that no scenario waits for it: ``images.py SCENARIO…``. What is there already costs nothing.

The images of the scenarios' containers, the stand-in repositories that they see, and the image of the lab's machines.
"""

import sys
from collections.abc import Sequence

import harness
from cluster import Cluster
from railwright.lab import LabError, image


def main(scenarios: Sequence[str]) -> int:
    """Exit status 1, with one line, when one cannot be built."""
    try:
        image.ensure(print)
        for scenario in scenarios:
            for node in Cluster(scenario).nodes:
                print(scenario, node.name, node.image(), *node.mounts, flush=True)
    except (harness.HarnessError, LabError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
