/* SPDX-License-Identifier: GPL-3.0-or-later */
/* GDRCopy's module by name: what Secure Boot asks of it is its signature alone. */
#include <linux/module.h>

static int __init gdrdrv_init(void) { return 0; }
static void __exit gdrdrv_exit(void) {}

module_init(gdrdrv_init);
module_exit(gdrdrv_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in for GDRCopy's module");
MODULE_VERSION("2.5");
