#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Settings come from the environment, as in the vendor's script of this name.
set -e
options=()
if [ "$ERDMA_FORCE_MAD_ENABLE" = 1 ]; then
    options+=(-DENABLE_MAD=1)
fi
mkdir -p build
cd build
cmake -DKERNEL_VER="$1" "${options[@]}" ..
