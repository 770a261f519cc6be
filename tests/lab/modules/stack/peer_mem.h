/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef STANDIN_PEER_MEM_H
#define STANDIN_PEER_MEM_H
/* What a client needs; the vendor's structure also has the functions that pin pages, and there is none to pin here. */
struct peer_memory_client {
	char name[64];
	char version[16];
};
void *ib_register_peer_memory_client(const struct peer_memory_client *client, void **invalidate);
void ib_unregister_peer_memory_client(void *handle);
#endif
