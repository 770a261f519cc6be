# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser, on outputs in the formats of the perftest source (4.5-0.17 and 26.01) and of recorded runs."""

from __future__ import annotations

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import figure, parse_json, parse_table, reason

# Recorded shape of Debian 12's ib_write_bw (4.5-0.17) with -D: the peak is 0.00 then.
BW_45 = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 2\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 1
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0011 PSN 0x6ca3a3 RKey 0x000248 VAddr 0x007f6d2d2d2000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:10:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      11000            0.00               96.42\t\t     0.183907
---------------------------------------------------------------------------------------
"""
# With -n: the peak is there, and larger than what counts. CUDA builds print lines of their own in between.
BW_PEAK = """\
initializing CUDA
Listing all CUDA devices in system:
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 3500.000000 != 800.000000. CPU Frequency is not max.
 1048576    5000             394.12             391.07\t\t     0.046619
"""
BW_MIB = BW_PEAK.replace("Gb/sec", "MiB/sec")
LAT_45 = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
    " 2       1000          3.62           9.71         3.70     \t       3.74        \t0.21\t\t4.05    \t\t9.71   \n"
)
LAT_DURATION = """\
 #bytes        #iterations       t_avg[usec]    tps average
 2             133337            3.75           133333.33
"""
ALL_SIZES = (
    BW_45
    + """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 2          5000             0.11               0.10\t\t     6.250000
 4          5000             0.22               0.21\t\t     6.250000
"""
)
JSON_26 = """{
"test_info": {
"test": "RDMA_Write BW Test",
"Device": "mlx5_0"
},
"results": {
"MsgSize": 1048576,
"n_iterations": 5000,
"BW_peak": 394.12,
"BW_average": 391.07,
"MsgRate": 0.046619
}
}
"""
# 4.5-0.17 writes its keys without quotes and ends lists with a comma.
JSON_45 = "{\ntest_info: {\ntest: RDMA_Write_BW_Test,\n},\nresults: {\nMsgSize: 65536,\nBW_average: 1.00,\n},\n}\n"


def test_the_average_counts_and_not_the_peak() -> None:
    assert figure("write_bw", BW_45, None) == 96.42
    assert figure("write_bw", BW_PEAK, None) == 391.07


def test_columns_are_found_by_their_names() -> None:
    assert parse_table(LAT_45)["t_avg[usec]"] == 3.74
    assert parse_table(LAT_45)["99% percentile[usec]"] == 4.05
    assert parse_table(LAT_DURATION)["t_avg[usec]"] == 3.75
    assert figure("read_lat", LAT_45, None) == 3.74


def test_the_last_row_of_several_counts() -> None:
    assert figure("write_bw", ALL_SIZES, None) == 0.21


def test_another_unit_is_no_figure() -> None:
    assert figure("write_bw", BW_MIB, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Couldn't connect to 10.0.0.2:18515\n",
        BW_45.rpartition(" 65536")[0],
        " 65536 11000 0.00 96.42 0.18\n",
        BW_45.replace("96.42", "0.00"),
        BW_45.replace("96.42", "-nan"),
    ],
)
def test_no_row_or_a_zero_is_no_figure(text: str) -> None:
    assert figure("write_bw", text, None) is None


def test_json_comes_first_where_it_is_json() -> None:
    assert parse_json(JSON_26, "write_bw") == 391.07
    assert figure("write_bw", BW_45, JSON_26) == 391.07
    assert parse_json(JSON_45, "write_bw") is None
    assert figure("write_bw", BW_45, JSON_45) == 96.42
    assert figure("write_bw", "", JSON_26) == 391.07


@pytest.mark.parametrize(
    "text", ["[]", "null", '{"results": 3}', '{"results": {}}', '{"results": {"BW_average": "fast"}}', '{"results": {"BW_average": true}}']
)
def test_a_strange_report_is_no_figure(text: str) -> None:
    assert parse_json(text, "write_bw") is None


def test_the_reason_names_the_server_and_the_first_telling_line() -> None:
    text = reason(
        1, "---\n", "Couldn't connect to 10.0.0.2:18515\n Unable to open file descriptor for socket connection\n", "node2 (10.0.0.2)"
    )
    assert text == "Couldn't connect to 10.0.0.2:18515 (rc 1, server node2 (10.0.0.2))"
    assert reason(124, "", "", "node2") == "no end in time; server node2"
    assert "no output" in reason(1, "", "", "node2")
