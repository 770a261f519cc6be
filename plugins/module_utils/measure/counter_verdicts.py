# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters: only growth under load is judged, never an absolute value.

A port that flapped once last year still shows it; a counter that grows while we push
traffic is a fault of now. Read before and after, compare.
"""

from typing import Any, List, Mapping, Tuple

from ..rules.comparisons import Where, unreadable, verdict
from ..types import Verdict

# Must not grow while traffic runs on a healthy fabric: link and packet integrity, and retransmission
# (InfiniBand spec vol. 1 16.1.3.5 PortCounters; NVIDIA "Understanding mlx5 Linux counters"; NCCL troubleshooting guide).
LINK = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors", "rx_icrc_encapsulated",
)
SEQUENCE = ("local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err", "out_of_sequence")
FAULTS = LINK + SEQUENCE
# Growth means configuration (buffers, PFC, receivers too slow), not a broken link.
SUSPECT = ("port_xmit_discards", "rnr_nak_retry_err", "out_of_buffer")


def judge_deltas(where: Where, before: Mapping[str, Any], after: Mapping[str, Any], faults: Tuple[str, ...] = FAULTS) -> List[Verdict]:
    """One verdict for the faults and one for the suspects of a port.

    A counter that the driver does not have is not in ``before``; one that it has and will not tell is None there.
    ``faults``: without ``SEQUENCE`` where ``qos.lossless`` judges lost packets, since one fault is one verdict.
    """
    verdicts = []
    for check, names, status in (("port.errors", faults, "fail"), ("port.discards", SUSPECT, "warn")):
        grown, readable = _growth(names, before, after)
        if not any(name in before for name in names):
            verdicts.append(verdict(check, where, "skipped", None, None, "the driver has none of these counters"))
        elif not readable:
            verdicts.append(unreadable(check, where, "no growth", "no error counter of the port"))
        elif grown:
            text = ", ".join("%s +%d" % item for item in grown)
            verdicts.append(verdict(check, where, status, "no growth", text, "grew during the test: %s" % text))
        else:
            verdicts.append(verdict(check, where, "pass", "no growth", "no growth", "read %d, none grew" % readable))
    return verdicts


def _growth(names: Tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> Tuple[List[Tuple[str, int]], int]:
    grown = []
    readable = 0
    for name in names:
        old, new = before.get(name), after.get(name)
        if not isinstance(old, int) or not isinstance(new, int):
            continue
        readable += 1
        if new > old:
            grown.append((name, new - old))
    return grown, readable
