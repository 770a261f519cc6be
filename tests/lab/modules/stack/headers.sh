#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# DKMS's POST_BUILD: what is built on top of this stack looks for its headers and checksums here, as with the vendor's.
set -eu
kernel=$1
target=/usr/src/ofa_kernel/$(uname -m)/$kernel
mkdir -p "$target/include/rdma"
cp Module.symvers "$target/"
cp peer_mem.h "$target/include/rdma/"
