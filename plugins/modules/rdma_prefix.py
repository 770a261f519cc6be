#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What lies below a versioned prefix; the logic is in module_utils/prefix."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import answer


def main() -> None:
    serve(PREFIX, answer)


if __name__ == "__main__":
    main()
