# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of packages share; see tests/lib/packages_nodes.py."""

from packages_nodes import doca, identity, node, spec

__all__ = ["doca", "identity", "node", "spec"]
