# SPDX-License-Identifier: GPL-3.0-or-later
"""The managers that can own a NIC: one file each, with the files they read and how they are told."""
