// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stand-in of nvidia-peermem and of nv_peer_mem: one source, two names, as theirs is nearly one.
 * OFED_HEADERS is defined when the stack's headers were there at build time.
 */
#include <linux/module.h>

static bool standin_load_anyway;
module_param(standin_load_anyway, bool, 0444);
MODULE_PARM_DESC(standin_load_anyway, "load although there is nothing to register with");

#ifdef OFED_HEADERS
#include <rdma/peer_mem.h>

static const struct peer_memory_client client = { .name = PEER_NAME, .version = STANDIN_VERSION };
static void *handle;

static int __init standin_init(void)
{
	handle = ib_register_peer_memory_client(&client, NULL);
	return handle ? 0 : -EINVAL;
}

static void __exit standin_exit(void)
{
	ib_unregister_peer_memory_client(handle);
}
#else
static int __init standin_init(void)
{
	return standin_load_anyway ? 0 : -EINVAL;
}

static void __exit standin_exit(void)
{
}
#endif

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for a peer memory client");
MODULE_VERSION(STANDIN_VERSION);
