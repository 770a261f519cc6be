/* SPDX-License-Identifier: GPL-3.0-or-later
 * In place of libcuda.so.1, where there is no GPU: it lists one, and can do nothing with it. */
#include <stddef.h>
#include <string.h>

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strcpy(name, "stand-in, no GPU"); return 0; }
int cuDeviceGetPCIBusId(char *name, int length, int device) { strcpy(name, "0000:1b:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 80UL << 30; return 0; }
