# SPDX-License-Identifier: GPL-3.0-or-later
"""The live view. Nodes tell what was counted, a line a second; here it becomes rates, marks, and a picture."""
