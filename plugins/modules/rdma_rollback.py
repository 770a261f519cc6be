#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a node back to how it was before a run, and record packages around a package step; the logic is in module_utils/rollback."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import ROLLBACK
from ansible_collections.railwright.rdma.plugins.module_utils.entry.rollback import answer


def main() -> None:
    serve(ROLLBACK, answer)


if __name__ == "__main__":
    main()
