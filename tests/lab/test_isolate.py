# SPDX-License-Identifier: GPL-3.0-or-later
"""Four machines with two rails each: a slowed rail, one slow direction, a slow path, a flapping link and a stopped machine are named.

Emulated machines share two cores, so what a rail carries is set by a shaper on each interface and not by who computes: RATE everywhere,
and a sixth of it where a fault is. Pairs measure one after the other. The tests are one story and run in this order; each fault is found
twice. A search that is killed is resumed and comes to the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab_images import FABRIC
from lab_machine import Machine, Outcome
from railwright import lab

ROOT = Path(__file__).resolve().parents[2]
NODES, RAILS = 4, 2
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "soft_roce",
    "rdma_mtu": 9000,
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": 600,
    "rdma_qos_profile": "none",
    "rdma_expect": {"link_layer": "Ethernet"},
    "validate_perftest_message_bytes": 4096,
    "validate_perftest_qps": 1,
}
RATE, SLOW = "24mbit", "4mbit"
ARGUMENTS = ("--at-once", "1", "--samples", "3", "--minutes", "40", "--rounds", "12")
