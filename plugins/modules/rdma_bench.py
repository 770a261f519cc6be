#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of both benchmarks on a node; the logic is in module_utils/measure."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.bench import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import BENCH


def main() -> None:
    serve(BENCH, answer)


if __name__ == "__main__":
    main()
