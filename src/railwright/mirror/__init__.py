# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror of what nodes download: one file over http, and a directory of them."""
