// SPDX-License-Identifier: GPL-3.0-or-later
/* Stand-in of the GPU driver's module: it says its version where the driver does, and drives nothing. */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static struct proc_dir_entry *directory;

static int version_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: " NVRM_NAME "  " STANDIN_VERSION "  Release Build\n");
	return 0;
}

static int __init standin_init(void)
{
	directory = proc_mkdir("driver/nvidia", NULL);
	if (directory && proc_create_single("version", 0444, directory, version_show))
		return 0;
	proc_remove(directory);
	return -ENOMEM;
}

static void __exit standin_exit(void)
{
	proc_remove(directory);
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE(STANDIN_LICENSE);
MODULE_DESCRIPTION("stand-in of a test for the GPU driver");
MODULE_VERSION(STANDIN_VERSION);
