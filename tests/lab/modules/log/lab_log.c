// SPDX-License-Identifier: GPL-3.0-or-later
/* Stand-in for a driver that logs: what root writes to the parameter `line` is a message of the kernel's own facility, which a write to
 * /dev/kmsg never is. */
#include <linux/module.h>
#include <linux/printk.h>

static int log_line(const char *text, const struct kernel_param *parameter)
{
	printk(KERN_ERR "%s\n", text);
	return 0;
}

static const struct kernel_param_ops line_ops = { .set = log_line };
module_param_cb(line, &line_ops, NULL, 0200);
MODULE_DESCRIPTION("stand-in for a driver that logs (railwright lab)");
MODULE_LICENSE("GPL");
