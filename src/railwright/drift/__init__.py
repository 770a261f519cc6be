# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift on the controller: since when a difference is there, the same one on many nodes as one line, and the forms for machines."""
