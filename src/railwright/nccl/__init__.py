# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL on the controller: settings as files have them, and what is wrong with them."""
