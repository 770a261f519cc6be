# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a commented inventory to start from: hosts.yml from a template, site.yml from the schema."""

from railwright.init.write import InitError, files, write_inventory

__all__ = ("InitError", "files", "write_inventory")
