#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action rdma_switch sends nothing of ours to a switch, so that nothing is here; its documentation is beside this file."""
