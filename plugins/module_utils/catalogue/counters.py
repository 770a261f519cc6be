# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of an HCA's port, a row each: how far one counts, what its growth means, and what other drivers call it.

Widths: PORT_PMA_ATTR in drivers/infiniband/core/sysfs.c (Linux 3.10 to 6.17, read 2026-11): the kernel cuts them from the answer of the
port's performance agent. Such a counter stops at its largest value (InfiniBand vol. 1, 16.1.3.5) until it is reset or the HCA is, and most
HCAs keep it over a reboot. The counters of ``hw_counters`` have 32 or 64 bits; none is known to stop.
``an_hour``, ``a_day``: infiniband-diags, error_thresholds (ibqueryerrors) and ibcheckerrors, which has no age; flaps: Azure, 5 a day.
Names are mlx5's. Others: drivers/infiniband/hw/bnxt_re/hw_counters.c and the patch that gives its counters mlx5's names;
drivers/infiniband/hw/irdma/verbs.c; drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c and bnxt_dcb.c (whose requests are
tx_pfc_ena_frames, indications rx_pfc_ena_frames). Kinds: NVIDIA "Understanding mlx5 Linux counters"; NCCL's troubleshooting guide.
"""

import re
from typing import Dict, NamedTuple, Optional, Tuple

# What growth under load means: a fault of the link; lost or reordered packets; a receiver or buffers too slow; packets sent again.
LINK, SEQUENCE, SUSPECT, RESENT, CONGESTION, MOVED = "link", "sequence", "suspect", "resent", "congestion", "moved"
RESET = "reset it with perfquery -R, or on Ethernet with mlxlink --pc, and check again"
LINK_DOWNED = "link_downed"


class Counter(NamedTuple):
    """``bits``: width of a counter that stops at its largest value; 0: of one that does not. ``kind``: the meaning of growth under load.

    ``an_hour``, ``a_day``: the growth that a healthy port may have; None: no such limit. ``kept``: the agent's history has it.
    ``diagnosed``: ``railwright diagnose`` reads it. ``others``: its names in other drivers. ``todo``: where it is no fault of the cable.
    """

    name: str
    bits: int = 0
    kind: str = ""
    an_hour: Optional[int] = None
    a_day: Optional[int] = None
    kept: bool = False
    diagnosed: bool = False
    others: Tuple[str, ...] = ()
    todo: str = ""

    @property
    def ceiling(self) -> Optional[int]:
        """The value at which the counter stops."""
        return (1 << self.bits) - 1 if self.bits else None


COUNTERS: Tuple[Counter, ...] = (
    Counter(LINK_DOWNED, 8, LINK, a_day=5, kept=True, diagnosed=True),
    Counter("symbol_error", 16, LINK, an_hour=10, kept=True, diagnosed=True),
    Counter("link_error_recovery", 8, LINK, an_hour=10, a_day=10, kept=True),
    Counter("port_rcv_errors", 16, LINK, an_hour=10, kept=True, diagnosed=True),
    Counter("local_link_integrity_errors", 4, LINK, an_hour=10, a_day=10, kept=True),
    # Flow control: the peer sent without credits. Its total has no age and proves nothing of the cable.
    Counter("excessive_buffer_overrun_errors", 4, LINK, an_hour=10, kept=True,
            todo="inspect flow control (credits, PFC) of the port and of the switch's port"),
    Counter("port_rcv_remote_physical_errors", 16, an_hour=100, kept=True),
    Counter("port_xmit_constraint_errors", 8, an_hour=100, kept=True),
    Counter("rx_icrc_encapsulated", 0, LINK, kept=True),
    Counter("local_ack_timeout_err", 0, SEQUENCE, kept=True, diagnosed=True, others=("to_retransmits",)),
    Counter("packet_seq_err", 0, SEQUENCE, kept=True, diagnosed=True, others=("seq_err_naks_rcvd",)),
    Counter("implied_nak_seq_err", 0, SEQUENCE, others=("missing_resp", "missin_resp")),
    Counter("out_of_sequence", 0, SEQUENCE, kept=True, diagnosed=True, others=("oos_drop_count",)),
    Counter("port_xmit_discards", 16, SUSPECT, kept=True),
    Counter("rnr_nak_retry_err", 0, SUSPECT, kept=True, diagnosed=True, others=("rnr_naks_rcvd",)),
    Counter("out_of_buffer", 0, SUSPECT, kept=True),
    Counter("roce_adp_retrans", 0, RESENT, kept=True),
    Counter("roce_adp_retrans_to", 0, RESENT),
    Counter("np_ecn_marked_roce_packets", 0, CONGESTION, kept=True, others=("rx_ecn_marked_pkts", "RxECNMrkd")),
    Counter("np_cnp_sent", 0, CONGESTION, kept=True, others=("tx_cnp_pkts", "np_cnp_pkts", "cnpSent")),
    Counter("rp_cnp_handled", 0, CONGESTION, kept=True, others=("rx_cnp_pkts", "cnpHandled")),
    Counter("rp_cnp_ignored", 0, CONGESTION, others=("cnpIgnored",)),
    Counter("port_xmit_packets", 0, MOVED),
    Counter("port_rcv_packets", 0, MOVED),
    Counter("sent_pkts", 0, MOVED),  # Soft-RoCE's, as the next
    Counter("rcvd_pkts", 0, MOVED),
    Counter("port_xmit_data", 0, diagnosed=True),
    Counter("port_rcv_data", 0, diagnosed=True),
    Counter("port_xmit_wait", 0, diagnosed=True),
    Counter("duplicate_request"),
    Counter("roce_slow_restart"),
    # Soft-RoCE: a gap seen by the receiver, a gap reported to the sender, retries used up.
    Counter("out_of_seq_request"),
    Counter("rcvd_seq_err"),
    Counter("retry_exceeded_err"),
)
BY_NAME: Dict[str, Counter] = {row.name: row for row in COUNTERS}
# Counters of an interface (bnxt_en): its form -> ours.
_INTERFACE = (
    (re.compile(r"([rt]x)_pfc_ena_frames_pri([0-7])"), r"\1_prio\2_pause"),
    (re.compile(r"pfc_pri([0-7])_([rt]x)_duration_us"), r"\2_prio\1_pause_duration"),
    (re.compile(r"pfc_pri([0-7])_([rt]x)_transitions"), r"\2_prio\1_pause_transition"),
)


def of_kind(kind: str) -> Tuple[str, ...]:
    """Return the names of the counters of one kind, in the order of the table."""
    return tuple(row.name for row in COUNTERS if row.kind == kind)


def names_of(name: str) -> Tuple[str, ...]:
    """Return our name of a counter and those of other drivers."""
    return (name,) + (BY_NAME[name].others if name in BY_NAME else ())


def is_full(name: str, value: Optional[int]) -> bool:
    """Return whether a counter stands at its ceiling, where it can count no more."""
    ceiling = BY_NAME[name].ceiling if name in BY_NAME else None
    return ceiling is not None and value is not None and value >= ceiling


def full_text(name: str) -> str:
    """Return the text about a counter at its ceiling: what it cannot show, and what to do."""
    return "%s is at its ceiling of %d and can count no more: %s" % (name, BY_NAME[name].ceiling or 0, RESET)


def of_interface(name: str) -> str:
    """Return our name of an interface's counter; an unknown one keeps its own."""
    matches = ((form.fullmatch(name), ours) for form, ours in _INTERFACE)
    return next((match.expand(ours) for match, ours in matches if match is not None), name)


class EfaCounter(NamedTuple):
    """``a_day``: what a day may have before it warns; ``share``: of which other counter it must also be a part, and how large a part."""

    name: str
    a_day: int
    meaning: str
    share: Optional[Tuple[str, float]] = None


# Names: drivers/infiniband/hw/efa/efa_verbs.c, amzn/amzn-drivers 64788ef7 (2026-05); meanings: AWS, "Monitor an Elastic Fabric Adapter".
# AWS publishes no limits. Ours (2026-11): 10 a day of what ends or delays a job, which is infiniband-diags' limit for recoveries; of what
# congestion brings along as well, one packet in 10^5 too: a busy and healthy instance counts thousands of timeouts without a loss.
EFA_COUNTERS = (
    EfaCounter("rx_drops", 1000, "packets received and dropped", ("rx_pkts", 1e-5)),
    EfaCounter("retrans_timeout_events", 100, "timeouts after which traffic took another path", ("tx_pkts", 1e-5)),
    EfaCounter("unresponsive_remote_events", 10, "times that a peer did not respond"),
    EfaCounter("impaired_remote_conn_events", 10, "times that a connection to a peer was impaired"),
    EfaCounter("rdma_read_wr_err", 10, "RDMA reads that failed"),
    EfaCounter("rdma_write_wr_err", 10, "RDMA writes that failed"),
)
