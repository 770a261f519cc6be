# SPDX-License-Identifier: GPL-3.0-or-later
"""One name for what several drivers count: mlx5's, which Broadcom's own driver took over later.

Sources: drivers/infiniband/hw/bnxt_re/hw_counters.c, and the patch that gives its counters mlx5's names ("compatibility
with open-source monitoring agents"); drivers/infiniband/hw/irdma/verbs.c; drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c
and bnxt_dcb.c (whose requests are tx_pfc_ena_frames, indications rx_pfc_ena_frames).
"""

import re
from typing import Dict, Tuple

# Counters of an HCA port: our name -> what other drivers, or older releases of theirs, call it.
HCA: Dict[str, Tuple[str, ...]] = {
    "out_of_sequence": ("oos_drop_count",),
    "packet_seq_err": ("seq_err_naks_rcvd",),
    "local_ack_timeout_err": ("to_retransmits",),
    "implied_nak_seq_err": ("missing_resp", "missin_resp"),
    "rnr_nak_retry_err": ("rnr_naks_rcvd",),
    "np_ecn_marked_roce_packets": ("rx_ecn_marked_pkts", "RxECNMrkd"),
    "np_cnp_sent": ("tx_cnp_pkts", "np_cnp_pkts", "cnpSent"),
    "rp_cnp_handled": ("rx_cnp_pkts", "cnpHandled"),
    "rp_cnp_ignored": ("cnpIgnored",),
}
# Counters of an interface (bnxt_en): its form -> ours.
_INTERFACE = (
    (re.compile(r"([rt]x)_pfc_ena_frames_pri([0-7])"), r"\1_prio\2_pause"),
    (re.compile(r"pfc_pri([0-7])_([rt]x)_duration_us"), r"\2_prio\1_pause_duration"),
    (re.compile(r"pfc_pri([0-7])_([rt]x)_transitions"), r"\2_prio\1_pause_transition"),
)


def of_interface(name: str) -> str:
    """Our name of an interface's counter; one that we do not know keeps its own."""
    matches = ((form.fullmatch(name), ours) for form, ours in _INTERFACE)
    return next((match.expand(ours) for match, ours in matches if match is not None), name)
