#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ask a scheduler about nodes, keep new work from them, let work come again; the logic is in module_utils/scheduler."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.drain import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import DRAIN


def main() -> None:
    serve(DRAIN, answer, writes=False)


if __name__ == "__main__":
    main()
