#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Traffic between nodes and within one; the logic is in module_utils/entry/measure.py."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.measure import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import MEASURE


def main() -> None:
    serve(MEASURE, answer, "rdma_measure")


if __name__ == "__main__":
    main()
