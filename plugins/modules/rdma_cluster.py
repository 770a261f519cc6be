#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action rdma_cluster runs on the controller only, so that nothing is here; its documentation is beside this file, as everybody's."""
