# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs as people read them. ``files`` writes a whole report; it imports much, and verbs that write none do without."""
