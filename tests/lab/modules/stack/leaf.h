/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A module of the stack that does nothing but need ib_core. */
#include <linux/module.h>

void ib_core_standin(void);

static int __init standin_init(void)
{
	ib_core_standin();
	return 0;
}

static void __exit standin_exit(void)
{
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for a module of the RDMA stack");
MODULE_VERSION(STANDIN_VERSION);
