#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove the package steps of a plan before they happen, or explain why they failed; the logic is in module_utils/plan/packages."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PACKAGES
from ansible_collections.railwright.rdma.plugins.module_utils.entry.packages import answer


def main() -> None:
    serve(PACKAGES, answer)


if __name__ == "__main__":
    main()
