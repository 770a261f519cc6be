# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line makes of the nodes' restore points."""
