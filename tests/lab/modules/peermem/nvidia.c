// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stand-in of the GPU driver's module: it says its version where the driver does, and drives nothing.
 * DEVICE 1: it takes the GPU on the PCI bus and has /dev/nvidia0, and stays loaded while somebody has that open.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static struct proc_dir_entry *directory;

static int version_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: " NVRM_NAME "  " STANDIN_VERSION "  Release Build\n");
	return 0;
}

static const struct file_operations operations = { .owner = THIS_MODULE };
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "nvidia0", .fops = &operations };

static int take(struct pci_dev *gpu, const struct pci_device_id *unused)
{
	return 0;
}

static const struct pci_device_id gpus[] = { { PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID) }, { } };
static struct pci_driver driver = { .name = "nvidia", .id_table = gpus, .probe = take };

static void give_back(void)
{
	if (DEVICE) {
		pci_unregister_driver(&driver);
		misc_deregister(&device);
	}
}

static int __init standin_init(void)
{
	if (DEVICE && misc_register(&device))
		return -EBUSY;
	if (DEVICE && pci_register_driver(&driver)) {
		misc_deregister(&device);
		return -EBUSY;
	}
	directory = proc_mkdir("driver/nvidia", NULL);
	if (directory && proc_create_single("version", 0444, directory, version_show))
		return 0;
	proc_remove(directory);
	give_back();
	return -ENOMEM;
}

static void __exit standin_exit(void)
{
	give_back();
	proc_remove(directory);
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE(STANDIN_LICENSE);
MODULE_DESCRIPTION("stand-in of a test for the GPU driver");
MODULE_VERSION(STANDIN_VERSION);
