# SPDX-License-Identifier: GPL-3.0-or-later
"""What perftest must reach where the inventory says the rate of a rail and no limit of its own. Pure. docs/guide.md has the sources.

Read in oracle-quickstart/oci-hpc b5285a6 (multi_node_active_healthcheck.py), Azure/azurehpc-health-checks 0e0a1ac (conf/*.conf), and
imbue-ai/cluster-health 8f5964a (host_validation/p2p_ib_test.py). Latencies there are of ib_write_lat; a read goes both ways.
"""

from ansible_collections.railwright.rdma.plugins.module_utils.rules.path_mtu import PATH_MTUS

# Bytes on the wire of a RoCE v2 packet beside its payload: preamble 8, Ethernet 14, IP 20 (IPv6: 40), UDP 8, BTH 12, ICRC 4, FCS 4, gap 12.
# InfiniBand has less, and Azure's floors there (390 of 400, 190 of 200, 95 of 100) are on both sides of this one: it is the same for both.
WIRE_BYTES, IPV6_BYTES = 82, 20
PAYLOAD = 0.98  # of what the headers leave: OCI asks 96 of 100, 192 of 200 and 384 of 400 with active MTU 4096
GPU_SHARE = 0.9  # of the rate: Azure asks 360 of 400 (H200) and 180 of 200 (A100), 380 with H100; imbue 720 of both ways of 400
SMALLEST = 65536  # bytes: OCI's messages, and perftest's default. In shorter ones the HCA's message rate decides
WRITE_LATENCY_US = 5.0  # OCI, the average (9 on GB200 and GB300); imbue 4.2 for 99 % of them


def payload_share(mtu: int, *, ipv6: bool) -> float:
    return mtu / (mtu + WIRE_BYTES + IPV6_BYTES * ipv6)


def bandwidth_limit(rate: float, mtu: int | None, message_bytes: int, *, gpu: bool, ipv6: bool) -> tuple[float | None, str]:
    """(Gb/s that ib_write_bw must reach, where they are from), or (None, why that is not known). Whole percents, as those published."""
    if mtu is None or mtu not in PATH_MTUS:
        return None, f"{rate:g} Gb/s are expected, and the active MTU of one end cannot be read: what they leave for data is not known"
    if message_bytes < SMALLEST:
        return None, f"what {rate:g} Gb/s carry in messages of {message_bytes} bytes is not known; it is from {SMALLEST} on"
    share = round(PAYLOAD * payload_share(mtu, ipv6=ipv6), 2)
    if gpu and share > GPU_SHARE:
        return round(GPU_SHARE * rate, 3), f"{GPU_SHARE:g} of rdma_expect.rate_gbps {rate:g} from GPU memory, active MTU {mtu}; Azure's"
    return round(share * rate, 3), f"{share:g} of rdma_expect.rate_gbps {rate:g} at active MTU {mtu}; OCI's share of its payload"
