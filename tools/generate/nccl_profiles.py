# SPDX-License-Identifier: GPL-3.0-or-later
"""The NCCL part of docs/reference/profiles.md: every row of the catalogue with what it needs, excludes and corrects."""

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import (
    DEFAULT_NCCL,
    NCCL_PROFILES,
    NODE_ADDS,
    SOCKET,
    NcclProfile,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS
from mdtext import cell, source

INTRO = """
`rdma_nccl_profile` selects one by name, `nccl_overrides` beats any of its variables (null leaves it out), and `railwright lint`
refuses a profile that does not fit the fabric, the QoS profile or the NCCL of the inventory. `railwright explain NAME` says the
same as this page, and with `-i INVENTORY --limit NODE` what that node's file will hold.

| profile | fabric | for |
|---|---|---|
"""
NODE_ROW = "| `NCCL_IB_HCA`, `NCCL_SOCKET_IFNAME` | from the node | From the rails' match and from `rdma_bootstrap_interface`. | |\n"
ONLY_SOCKET = "| `NCCL_SOCKET_IFNAME` | `rdma_bootstrap_interface` | Only where the inventory names one; no `NCCL_IB_HCA`. | |\n"
OWN_SOCKET = "| `NCCL_SOCKET_IFNAME` | from the node | `rdma_bootstrap_interface`, or the default route's; no `NCCL_IB_HCA`. | |\n"
INDEX = """
### The GID index

`NCCL_IB_GID_INDEX` is one number for all HCAs of a node, and each port has a table of its own. `nccl_gid_index` decides:

| `nccl_gid_index` | NCCL 2.21 and later | older NCCL |
|---|---|---|
| `auto` | nothing is written (`-1` where the profile says so): NCCL finds it by family, RoCE version and range | \
written where the RoCE v2 GIDs of all selected HCAs, with their rails' addresses, have one index; \
else a problem that names each HCA with its own |
| a number | checked on each selected HCA: RoCE v2, and the rail's address; else a problem that says what is there | the same |

Which NCCL counts: the one that `nccl_install` and `nccl_version` bring; where the inventory brings none, every `libnccl.so.2` that is
found on the node. `nccl_overrides: {NCCL_IB_GID_INDEX: null}` leaves the index to the jobs. On InfiniBand there is none, and to set
one is an error. Where a plugin is the transport (`erdma-aiacc`, `aws-efa`, `gcp-*`) or the jobs choose the index, the check `nccl.gid` is
skipped. A rail whose address is not there yet has no GID yet: what the file holds stays, and the next plan inspects again.
"""
RANGE = ("NCCL_IB_ADDR_RANGE", "the rails' subnet", "Set when all rails of the host are in one subnet.",
         "alibabacloud-erdma-controller runbook")
FAMILY_WHY = ("Set when the rails have IPv6 addresses: NCCL picks a GID by its family. NCCL before 2.21 picks none; see the GID index.")
FAMILY = ("NCCL_IB_ADDR_FAMILY", "`AF_INET6`", FAMILY_WHY, "NCCL (src/transport/net_ib, since 2.21)")


def nccl_profiles() -> str:
    rows = [f"| `{row.name}` | {', '.join(row.fabrics)} | {cell(row.why)} |\n" for row in NCCL_PROFILES]
    return "".join([INTRO, *rows, INDEX, *(_profile(row) for row in NCCL_PROFILES)])


def _profile(profile: NcclProfile) -> str:
    default_for = [fabric for fabric in FABRICS if DEFAULT_NCCL[fabric] == profile.name]
    text = f"\n### `{profile.name}`\n\n{cell(profile.why)} Source: {source(profile.source)}."
    text += f" The default of fabric {' and '.join(default_for)}.\n" if default_for else "\n"
    text += _demands(profile) + "\n| variable | value | why | source |\n|---|---|---|---|\n"
    for variable in profile.variables:
        text += f"| `{variable.name}` | `{variable.value}` | {cell(variable.why)} | {source(variable.source)} |\n"
    if profile.address_range:
        text += f"| `{RANGE[0]}` | {' | '.join(RANGE[1:])} |\n"
    if "roce" in profile.fabrics and not profile.transport:
        text += f"| `{FAMILY[0]}` | {' | '.join(FAMILY[1:])} |\n"
        text += f"| `NCCL_IB_TC` | from the QoS profile | {f'`{profile.qos}`' if profile.qos else ''} | |\n"
    text += NODE_ROW if profile.node == NODE_ADDS else OWN_SOCKET if profile.node == (SOCKET,) else ONLY_SOCKET
    return text + _shapes(profile) + _excludes(profile) + _corrected(profile)


def _demands(profile: NcclProfile) -> str:
    first, last = profile.nccl
    rows = []
    if first or last:
        rows.append(f"NCCL {first} to {last}" if first and last else f"NCCL {first} and later" if first else f"NCCL up to {last}")
    if profile.qos:
        rows.append(f"rdma_qos_profile: {profile.qos}")
    if profile.transport:
        rows.append(f"its transport is {profile.transport}, which finds devices and GIDs by itself")
    return "".join(f"\n* Needs: {cell(row)}." for row in [*rows, *profile.needs]) + ("\n" if rows or profile.needs else "")


def _shapes(profile: NcclProfile) -> str:
    if not profile.hcas:
        return ""
    text = "\n`NCCL_IB_HCA` comes from the rails. On a host without rails it is the list of its shape" + (
        ":" if len(profile.hcas) == 1 else ", and since there are several, the inventory must name it in `nccl_overrides`:")
    return text + "\n" + "".join(f"\n* {shape}: `={','.join(names)}`" for shape, names in profile.hcas) + "\n"


def _excludes(profile: NcclProfile) -> str:
    rows = []
    for row in profile.excludes:
        values = ", ".join(f"`{value}`" for value in row.values) or "any"
        lint = "refused" if row.severity == "error" else "warned of"
        rows.append(f"| `{row.name}` | {values} | {lint} | {cell(row.why)} | {source(row.source)} |\n")
    return "\n| must not be set | to | lint | why | source |\n|---|---|---|---|---|\n" + "".join(rows) if rows else ""


def _corrected(profile: NcclProfile) -> str:
    rows = [f"| {source(row.said)} | {cell(row.instead)} | {source(row.why)} |\n" for row in profile.corrected]
    return "\n| the source says | here | why |\n|---|---|---|\n" + "".join(rows) if rows else ""
