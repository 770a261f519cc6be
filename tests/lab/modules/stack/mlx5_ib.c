// SPDX-License-Identifier: GPL-3.0-or-later
/* Stand-in of mlx5_ib: the RDMA device of the stand-in NIC (lab_pcie), as far as sysfs shows it. No verbs, no traffic. */
#include <linux/device.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

extern struct class ib_standin_class;

static struct pci_dev *nic;
static struct device *hca;
static struct kobject *ports, *port, *gids, *attrs, *types, *ndevs;

#define TEXT(variable, file, text)                                                              \
	static ssize_t variable##_show(struct kobject *k, struct kobj_attribute *a, char *page) \
	{                                                                                       \
		return sysfs_emit(page, text "\n");                                             \
	}                                                                                       \
	static struct kobj_attribute variable = { .attr = { .name = file, .mode = 0444 }, .show = variable##_show }

TEXT(state, "state", "4: ACTIVE");
TEXT(phys_state, "phys_state", "5: LinkUp");
TEXT(rate, "rate", "400 Gb/sec (4X NDR)");
TEXT(link_layer, "link_layer", "Ethernet");
TEXT(gid, "0", "fe80:0000:0000:0000:5054:00ff:fe4d:ff01");
TEXT(type, "0", "RoCE v2");
TEXT(ndev, "0", "eth2");

static ssize_t node_guid_show(struct device *d, struct device_attribute *a, char *page)
{
	return sysfs_emit(page, "5254:00ff:fe4d:ff01\n");
}
static DEVICE_ATTR_RO(node_guid);
static ssize_t node_type_show(struct device *d, struct device_attribute *a, char *page)
{
	return sysfs_emit(page, "1: CA\n");
}
static DEVICE_ATTR_RO(node_type);
static struct attribute *hca_attrs[] = { &dev_attr_node_guid.attr, &dev_attr_node_type.attr, NULL };
ATTRIBUTE_GROUPS(hca);

static struct attribute *port_attrs[] = { &state.attr, &phys_state.attr, &rate.attr, &link_layer.attr, NULL };
static const struct attribute_group port_group = { .attrs = port_attrs };

static int add_port(void)
{
	ports = kobject_create_and_add("ports", &hca->kobj);
	port = ports ? kobject_create_and_add("1", ports) : NULL;
	gids = port ? kobject_create_and_add("gids", port) : NULL;
	attrs = gids ? kobject_create_and_add("gid_attrs", port) : NULL;
	types = attrs ? kobject_create_and_add("types", attrs) : NULL;
	ndevs = types ? kobject_create_and_add("ndevs", attrs) : NULL;
	if (!ndevs)
		return -ENOMEM;
	return sysfs_create_group(port, &port_group) ?: sysfs_create_file(gids, &gid.attr) ?:
	       sysfs_create_file(types, &type.attr) ?: sysfs_create_file(ndevs, &ndev.attr);
}

static void remove_all(void)
{
	kobject_put(ndevs);
	kobject_put(types);
	kobject_put(attrs);
	kobject_put(gids);
	kobject_put(port);
	kobject_put(ports);
	if (!IS_ERR_OR_NULL(hca))
		device_unregister(hca);
	pci_dev_put(nic);
}

static int __init standin_init(void)
{
	int error;

	nic = pci_get_device(PCI_VENDOR_ID_MELLANOX, 0x4d01, NULL);
	if (!nic)
		return 0; /* As the real one without its hardware: loaded, and nothing to show. */
	hca = device_create_with_groups(&ib_standin_class, &nic->dev, 0, NULL, hca_groups, "mlx5_0");
	if (IS_ERR(hca)) {
		pci_dev_put(nic);
		return PTR_ERR(hca);
	}
	error = add_port();
	if (error)
		remove_all();
	return error;
}

static void __exit standin_exit(void)
{
	if (nic)
		remove_all();
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for mlx5_ib");
MODULE_VERSION(STANDIN_VERSION);
