// SPDX-License-Identifier: GPL-3.0-or-later
// Says what it was built with, and asks the NCCL that it finds for its version.
#include <cstdio>
#include <nccl.h>

int main() {
  int version = 0;
  ncclGetVersion(&version);
  std::printf("%s\n%s\nby %s\nnccl %d\n", NAME, GENCODE, BUILT_BY, version);
}
