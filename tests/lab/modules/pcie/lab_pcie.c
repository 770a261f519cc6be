// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stand-in of a PCI Express fabric: domain 1, two root ports with ACS, a GPU below the first and a NIC below the second.
 * Configuration space lies in memory; masks say which bits a write changes, as in hardware. The NIC has a driver here and an
 * Ethernet interface that takes every frame and delivers none.
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <asm/pci.h>

#define DOMAIN 1
#define EXP 0x40
#define ACS 0x100
#define PORTS 2
#define NIC_VENDOR PCI_VENDOR_ID_MELLANOX
#define NIC_DEVICE 0x4d01

struct function {
	u8 value[4096];
	u8 mask[4096];
};

static char *driver_name = "lab_pcie";
module_param(driver_name, charp, 0444);
MODULE_PARM_DESC(driver_name, "what the NIC's driver is called on the PCI bus");

static struct function *functions; /* ports, then what is below each */
static struct pci_bus *root;
static struct pci_sysdata sysdata = { .domain = DOMAIN, .node = NUMA_NO_NODE };
static struct resource busn = { .name = "lab_pcie bus", .start = 0, .end = PORTS, .flags = IORESOURCE_BUS };

static void set16(struct function *f, int at, u16 value, u16 mask)
{
	f->value[at] = value & 0xff;
	f->value[at + 1] = value >> 8;
	f->mask[at] = mask & 0xff;
	f->mask[at + 1] = mask >> 8;
}

static void set32(struct function *f, int at, u32 value)
{
	set16(f, at, value & 0xffff, 0);
	set16(f, at + 2, value >> 16, 0);
}

static void describe(struct function *f, u16 vendor, u16 device, u32 class, int type)
{
	set16(f, PCI_VENDOR_ID, vendor, 0);
	set16(f, PCI_DEVICE_ID, device, 0);
	set16(f, PCI_COMMAND, 0, 0x0547);
	set16(f, PCI_STATUS, PCI_STATUS_CAP_LIST, 0);
	set32(f, PCI_CLASS_REVISION, class << 8 | 1);
	f->value[PCI_CAPABILITY_LIST] = EXP;
	f->mask[PCI_INTERRUPT_LINE] = 0xff;
	set16(f, EXP, PCI_CAP_ID_EXP, 0);
	set16(f, EXP + PCI_EXP_FLAGS, type << 4 | 2, 0);
	set32(f, EXP + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | 2);
	set16(f, EXP + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_READRQ_512B | PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_RELAX_EN, 0x7fff);
	set32(f, EXP + PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_16_0GB | 16 << 4);
	set16(f, EXP + PCI_EXP_LNKCTL, 0, 0x03ff);
	set16(f, EXP + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_CLS_16_0GB | 16 << 4, 0);
	set16(f, EXP + PCI_EXP_DEVCTL2, 0, 0xffff);
	set32(f, EXP + PCI_EXP_LNKCAP2, 0x1e);
	set16(f, EXP + PCI_EXP_LNKCTL2, 4, 0xffff);
}

static void describe_port(struct function *f, int number)
{
	describe(f, NIC_VENDOR, 0x4d00, PCI_CLASS_BRIDGE_PCI << 8, PCI_EXP_TYPE_ROOT_PORT);
	f->value[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_BRIDGE;
	set16(f, PCI_PRIMARY_BUS, (number + 1) << 8, 0xffff);
	set16(f, PCI_SUBORDINATE_BUS, number + 1, 0x00ff);
	/* Every base above its limit: no window. */
	set16(f, PCI_IO_BASE, 0x00f0, 0xf0f0);
	set16(f, PCI_MEMORY_BASE, 0xfff0, 0xfff0);
	set16(f, PCI_MEMORY_LIMIT, 0, 0xfff0);
	set16(f, PCI_PREF_MEMORY_BASE, 0xfff0, 0xfff0);
	set16(f, PCI_PREF_MEMORY_LIMIT, 0, 0xfff0);
	set16(f, PCI_BRIDGE_CONTROL, 0, 0x00ff);
	set32(f, ACS, PCI_EXT_CAP_ID_ACS | 1 << 16);
	set16(f, ACS + PCI_ACS_CAP, 0x005f, 0);
	set16(f, ACS + PCI_ACS_CTRL, PCI_ACS_SV | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF, 0x005f);
}

static struct function *find(struct pci_bus *bus, unsigned int devfn)
{
	int port;

	if (bus->number == 0)
		return PCI_FUNC(devfn) == 0 && PCI_SLOT(devfn) < PORTS ? &functions[PCI_SLOT(devfn)] : NULL;
	for (port = 0; port < PORTS; port++)
		if (functions[port].value[PCI_SECONDARY_BUS] == bus->number && devfn == 0)
			return &functions[PORTS + port];
	return NULL;
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct function *f = find(bus, devfn);
	int at;

	*value = ~0;
	if (!f)
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	for (at = size - 1; at >= 0; at--)
		*value = *value << 8 | f->value[where + at];
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct function *f = find(bus, devfn);
	int at;

	if (!f)
		return PCIBIOS_DEVICE_NOT_FOUND;
	for (at = where; at < where + size; at++, value >>= 8)
		f->value[at] = (f->value[at] & ~f->mask[at]) | (value & f->mask[at]);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = config_read, .write = config_write };

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static int nic_open(struct net_device *dev)
{
	netif_carrier_on(dev);
	netif_start_queue(dev);
	return 0;
}

static int nic_stop(struct net_device *dev)
{
	netif_stop_queue(dev);
	return 0;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
};

static int nic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	static const u8 mac[ETH_ALEN] = { 0x52, 0x54, 0x00, 0x4d, 0xff, 0x01 };
	struct net_device *dev = alloc_etherdev(0);
	int error;

	if (!dev)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, &pdev->dev);
	dev->netdev_ops = &nic_ops;
	dev->max_mtu = 9216;
	eth_hw_addr_set(dev, mac);
	error = register_netdev(dev);
	if (error) {
		free_netdev(dev);
		return error;
	}
	pci_set_drvdata(pdev, dev);
	return 0;
}

static void nic_remove(struct pci_dev *pdev)
{
	struct net_device *dev = pci_get_drvdata(pdev);

	unregister_netdev(dev);
	free_netdev(dev);
}

static const struct pci_device_id nic_ids[] = { { PCI_DEVICE(NIC_VENDOR, NIC_DEVICE) }, {} };
static struct pci_driver nic_driver = { .id_table = nic_ids, .probe = nic_probe, .remove = nic_remove };

static int __init lab_pcie_init(void)
{
	LIST_HEAD(resources);
	int port, error;

	functions = kvcalloc(2 * PORTS, sizeof(*functions), GFP_KERNEL);
	if (!functions)
		return -ENOMEM;
	for (port = 0; port < PORTS; port++)
		describe_port(&functions[port], port);
	describe(&functions[PORTS], PCI_VENDOR_ID_NVIDIA, 0x2330, PCI_CLASS_DISPLAY_3D << 8, PCI_EXP_TYPE_ENDPOINT);
	describe(&functions[PORTS + 1], NIC_VENDOR, NIC_DEVICE, PCI_CLASS_NETWORK_ETHERNET << 8, PCI_EXP_TYPE_ENDPOINT);
	nic_driver.name = driver_name;
	error = pci_register_driver(&nic_driver);
	if (error)
		goto free;
	pci_add_resource(&resources, &busn);
	pci_lock_rescan_remove();
	root = pci_scan_root_bus(NULL, 0, &ops, &sysdata, &resources);
	if (root)
		pci_bus_add_devices(root);
	pci_unlock_rescan_remove();
	if (root)
		return 0;
	error = -ENODEV;
	pci_unregister_driver(&nic_driver);
free:
	kvfree(functions);
	return error;
}

static void __exit lab_pcie_exit(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(root);
	pci_remove_root_bus(root);
	pci_unlock_rescan_remove();
	pci_unregister_driver(&nic_driver);
	kvfree(functions);
}

module_init(lab_pcie_init);
module_exit(lab_pcie_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for a PCI Express fabric with a GPU and a NIC");
