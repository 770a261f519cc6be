/* SPDX-License-Identifier: GPL-3.0-or-later
 * In place of libcuda.so.1, where there is no GPU: it lists one, or as many as it is compiled with, and can do nothing with them. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifndef GPUS
#define GPUS 1
#endif

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = GPUS; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strcpy(name, "stand-in, no GPU"); return 0; }
int cuDeviceGetPCIBusId(char *name, int length, int device) { snprintf(name, length, "0000:%02x:00.0", 0x1b + 16 * device); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 80UL << 30; return 0; }
