# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling upgrades: the release, the order of the nodes, the journal, and the machine that goes through it. docs/upgrade.md."""
