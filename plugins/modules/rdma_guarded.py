#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Of the action rdma_guarded Ansible's own modules do the work, so that nothing is here; its documentation is beside this file."""
