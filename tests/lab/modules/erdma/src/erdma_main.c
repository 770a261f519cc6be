// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stand-in of Alibaba's eRDMA driver: its parameter compat_mode, read at loading and shown, with the default that its build gave
 * it; and a device that a program can keep open, so that the driver cannot be unloaded. There is no RDMA device.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

static bool compat_mode = HAVE_ERDMA_MAD;
module_param(compat_mode, bool, 0444);
MODULE_PARM_DESC(compat_mode, "compat mode support");

static bool built_with_mad = HAVE_ERDMA_MAD;
module_param(built_with_mad, bool, 0444);
MODULE_PARM_DESC(built_with_mad, "how this stand-in was built");

static void *volatile core; /* imported from ib_core, as every provider does: what tells whether it fits */

static const struct file_operations held = {
	.owner = THIS_MODULE,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab_erdma",
	.fops = &held,
};

static int __init erdma_init(void)
{
	core = ib_register_device;
	return misc_register(&device);
}

static void __exit erdma_exit(void)
{
	misc_deregister(&device);
}

module_init(erdma_init);
module_exit(erdma_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in for Alibaba's eRDMA driver");
