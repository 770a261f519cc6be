// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stand-in of a RoCE NIC's QoS: an Ethernet interface with DCB operations, and the RDMA device of its port.
 *
 * What the tools set is kept and handed back, with the rules of mlx5's driver: one priority a DSCP, bandwidths of ETS that add up,
 * DCBX in the hand of the firmware until the host is told to take it. ecn/ below the interface and tc/ below the RDMA device are
 * the files of NVIDIA's packaged driver. Frames go nowhere, and no program can open the RDMA device: what rdma_cm, its configfs and
 * the GID table make of it is real. Everything starts anew when the module does, as in a NIC that was reset.
 */
#include <linux/dcbnl.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <net/addrconf.h>
#include <net/dcbnl.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_verbs.h>

#define DSCPS 64
#define GIDS 16
#define BUFFER_BYTES (512 * 1024)

static char *driver_name = "lab_dcb";
module_param(driver_name, charp, 0444);
MODULE_PARM_DESC(driver_name, "what the driver of the NIC is called");
static char *interface = "roce%d";
module_param(interface, charp, 0444);
MODULE_PARM_DESC(interface, "name of the interface");
static char *rdma_name = "lab_dcb%d";
module_param(rdma_name, charp, 0444);
MODULE_PARM_DESC(rdma_name, "name of the RDMA device");
static char *mac = "52:54:00:4d:fe:01";
module_param(mac, charp, 0444);
MODULE_PARM_DESC(mac, "address of the interface");
static char *firmware = "28.39.1002";
module_param(firmware, charp, 0644);
MODULE_PARM_DESC(firmware, "version of the firmware that the RDMA device shows");

/* A file of one number. */
struct number {
	struct kobj_attribute file;
	unsigned int value, max;
};

struct nic {
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct dcbnl_buffer buffer;
	u8 dcbx;
	struct kobject *ecn, *np, *rp, *np_enable, *rp_enable, *tc, *tc_port;
	struct number np_on[8], rp_on[8], cnp_dscp, cnp_prio;
	struct kobj_attribute traffic_class;
	int forced; /* -1: the queue pairs keep their own */
};

struct hca {
	struct ib_device ib;
	struct net_device *netdev;
};

static struct platform_device *platform;
static struct net_device *netdev;
static struct hca *hca;

/* Interface */

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static int nic_open(struct net_device *dev)
{
	netif_carrier_on(dev);
	netif_tx_start_all_queues(dev);
	return 0;
}

static int nic_stop(struct net_device *dev)
{
	netif_tx_stop_all_queues(dev);
	return 0;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
};

/* DCB */

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = ((struct nic *)netdev_priv(dev))->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct nic *nic = netdev_priv(dev);
	int tc, sum = 0, any = 0;

	for (tc = 0; tc < IEEE_8021QAZ_MAX_TCS; tc++) {
		if (ets->prio_tc[tc] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS) {
			any = 1;
			sum += ets->tc_tx_bw[tc];
		}
	}
	if (any && sum != 100)
		return -EINVAL;
	memcpy(nic->ets.prio_tc, ets->prio_tc, sizeof(nic->ets.prio_tc));
	memcpy(nic->ets.tc_tx_bw, ets->tc_tx_bw, sizeof(nic->ets.tc_tx_bw));
	memcpy(nic->ets.tc_tsa, ets->tc_tsa, sizeof(nic->ets.tc_tsa));
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = ((struct nic *)netdev_priv(dev))->pfc;
	return 0;
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct nic *nic = netdev_priv(dev);

	nic->pfc.pfc_en = pfc->pfc_en;
	nic->pfc.delay = pfc->delay;
	return 0;
}

/* The priority that a DSCP has in the kernel's table, or -1. */
static int mapped(struct net_device *dev, u16 dscp)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP, .protocol = dscp };
	u8 mask = dcb_ieee_getapp_mask(dev, &app);

	return mask ? __ffs(mask) : -1;
}

static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct dcb_app old = *app;
	int priority;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS)
		return -EINVAL;
	priority = mapped(dev, app->protocol);
	if (priority == app->priority)
		return 0;
	if (priority >= 0) {
		old.priority = priority;
		dcb_ieee_delapp(dev, &old);
	}
	return dcb_ieee_setapp(dev, app);
}

static int del_app(struct net_device *dev, struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS)
		return -EINVAL;
	return dcb_ieee_delapp(dev, app);
}

static u8 get_dcbx(struct net_device *dev)
{
	return ((struct nic *)netdev_priv(dev))->dcbx;
}

/* 0: done. Neither CEE alone nor an agent of the kernel's: the firmware has one of its own. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct nic *nic = netdev_priv(dev);

	if (mode & DCB_CAP_DCBX_LLD_MANAGED)
		return 1;
	if (mode && !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	nic->dcbx = DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE | (mode & DCB_CAP_DCBX_HOST);
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = ((struct nic *)netdev_priv(dev))->buffer;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct nic *nic = netdev_priv(dev);
	u64 sum = 0;
	int i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > BUFFER_BYTES)
		return -EINVAL;
	memcpy(nic->buffer.prio2buffer, buffer->prio2buffer, sizeof(nic->buffer.prio2buffer));
	memcpy(nic->buffer.buffer_size, buffer->buffer_size, sizeof(nic->buffer.buffer_size));
	return 0;
}

static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_setapp = set_app,
	.ieee_delapp = del_app,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
};

static void as_shipped(struct nic *nic)
{
	int i;

	nic->pfc.pfc_cap = 8;
	nic->ets.ets_cap = 8;
	nic->ets.willing = 0;
	for (i = 0; i < 8; i++) {
		nic->ets.prio_tc[i] = i;
		nic->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		nic->buffer.buffer_size[i] = 0;
	}
	nic->buffer.buffer_size[0] = BUFFER_BYTES / 2;
	nic->buffer.total_size = BUFFER_BYTES;
	nic->dcbx = DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
	nic->forced = -1;
}

/* Files of the packaged driver */

static ssize_t number_show(struct kobject *k, struct kobj_attribute *a, char *page)
{
	return sysfs_emit(page, "%u\n", container_of(a, struct number, file)->value);
}

static ssize_t number_store(struct kobject *k, struct kobj_attribute *a, const char *text, size_t size)
{
	struct number *number = container_of(a, struct number, file);
	unsigned int value;
	int error = kstrtouint(text, 10, &value);

	if (error || value > number->max)
		return error ?: -EINVAL;
	number->value = value;
	return size;
}

static int add_number(struct kobject *at, struct number *number, const char *name, unsigned int value, unsigned int max)
{
	sysfs_attr_init(&number->file.attr);
	number->file.attr.name = name;
	number->file.attr.mode = 0644;
	number->file.show = number_show;
	number->file.store = number_store;
	number->value = value;
	number->max = max;
	return at ? sysfs_create_file(at, &number->file.attr) : -ENOMEM;
}

static ssize_t class_show(struct kobject *k, struct kobj_attribute *a, char *page)
{
	int forced = container_of(a, struct nic, traffic_class)->forced;

	return forced < 0 ? 0 : sysfs_emit(page, "Global tclass=%d\n", forced);
}

static ssize_t class_store(struct kobject *k, struct kobj_attribute *a, const char *text, size_t size)
{
	int value, error = kstrtoint(text, 10, &value);

	if (error || value < -1 || value > 255)
		return error ?: -EINVAL;
	container_of(a, struct nic, traffic_class)->forced = value;
	return size;
}

static int add_files(struct nic *nic, struct kobject *net, struct kobject *rdma)
{
	static const char *const names[8] = { "0", "1", "2", "3", "4", "5", "6", "7" };
	int i, error = 0;

	nic->ecn = kobject_create_and_add("ecn", net);
	nic->np = nic->ecn ? kobject_create_and_add("roce_np", nic->ecn) : NULL;
	nic->rp = nic->ecn ? kobject_create_and_add("roce_rp", nic->ecn) : NULL;
	nic->np_enable = nic->np ? kobject_create_and_add("enable", nic->np) : NULL;
	nic->rp_enable = nic->rp ? kobject_create_and_add("enable", nic->rp) : NULL;
	nic->tc = kobject_create_and_add("tc", rdma);
	nic->tc_port = nic->tc ? kobject_create_and_add("1", nic->tc) : NULL;
	for (i = 0; i < 8 && !error; i++)
		error = add_number(nic->np_enable, &nic->np_on[i], names[i], 0, 1) ?:
			add_number(nic->rp_enable, &nic->rp_on[i], names[i], 0, 1);
	sysfs_attr_init(&nic->traffic_class.attr);
	nic->traffic_class.attr.name = "traffic_class";
	nic->traffic_class.attr.mode = 0644;
	nic->traffic_class.show = class_show;
	nic->traffic_class.store = class_store;
	return error ?: add_number(nic->np, &nic->cnp_dscp, "cnp_dscp", 0, DSCPS - 1) ?:
	       add_number(nic->np, &nic->cnp_prio, "cnp_802p_prio", 0, 7) ?:
	       nic->tc_port ? sysfs_create_file(nic->tc_port, &nic->traffic_class.attr) : -ENOMEM;
}

static void remove_files(struct nic *nic)
{
	kobject_put(nic->np_enable);
	kobject_put(nic->rp_enable);
	kobject_put(nic->np);
	kobject_put(nic->rp);
	kobject_put(nic->ecn);
	kobject_put(nic->tc_port);
	kobject_put(nic->tc);
}

/* RDMA device: what the core demands of one that kernel users may see. */

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	addrconf_addr_eui48((u8 *)&attr->sys_image_guid, container_of(ib, struct hca, ib)->netdev->dev_addr);
	attr->max_qp = attr->max_cq = attr->max_mr = attr->max_pd = attr->max_pkeys = 1;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct net_device *dev = container_of(ib, struct hca, ib)->netdev;
	bool up = netif_running(dev) && netif_carrier_ok(dev);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = iboe_get_mtu(dev->mtu);
	attr->gid_tbl_len = GIDS;
	attr->pkey_tbl_len = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	/* No management datagrams: the core would open queue pairs for them. */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP | RDMA_CORE_CAP_IB_CM |
				    RDMA_CORE_CAP_AF_IB | RDMA_CORE_CAP_ETH_AH;
	immutable->gid_tbl_len = GIDS;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static int keep_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0; /* the core has the table */
}

static int no_pd(struct ib_pd *pd, struct ib_udata *udata) { return -EOPNOTSUPP; }
static int free_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
static int no_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata) { return -EOPNOTSUPP; }
static int same_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata) { return -EOPNOTSUPP; }
static int free_qp(struct ib_qp *qp, struct ib_udata *udata) { return 0; }
static int no_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct ib_udata *udata) { return -EOPNOTSUPP; }
static int free_cq(struct ib_cq *cq, struct ib_udata *udata) { return 0; }
static int poll(struct ib_cq *cq, int entries, struct ib_wc *wc) { return 0; }
static int arm(struct ib_cq *cq, enum ib_cq_notify_flags flags) { return 0; }
static int send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad) { *bad = wr; return -EOPNOTSUPP; }
static int receive(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad) { *bad = wr; return -EOPNOTSUPP; }
static struct ib_mr *no_dma_mr(struct ib_pd *pd, int access) { return ERR_PTR(-EOPNOTSUPP); }
static struct ib_mr *no_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}
static int free_mr(struct ib_mr *mr, struct ib_udata *udata) { return 0; }

static void fw_version(struct ib_device *ib, char *text)
{
	/* A line break comes with what is written to a parameter's file. */
	snprintf(text, IB_FW_VERSION_NAME_MAX, "%.*s", (int)strcspn(firmware, "\n"), firmware);
}

static const struct ib_device_ops rdma_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.get_dev_fw_str = fw_version,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_link_layer = link_layer,
	.get_port_immutable = port_immutable,
	.add_gid = keep_gid,
	.del_gid = keep_gid,
	.alloc_pd = no_pd,
	.dealloc_pd = free_pd,
	.create_qp = no_qp,
	.modify_qp = same_qp,
	.destroy_qp = free_qp,
	.create_cq = no_cq,
	.destroy_cq = free_cq,
	.poll_cq = poll,
	.req_notify_cq = arm,
	.post_send = send,
	.post_recv = receive,
	.get_dma_mr = no_dma_mr,
	.reg_user_mr = no_mr,
	.dereg_mr = free_mr,
};

static int add_rdma(struct device *parent)
{
	int error;

	hca = ib_alloc_device(hca, ib);
	if (!hca)
		return -ENOMEM;
	hca->netdev = netdev;
	hca->ib.phys_port_cnt = 1;
	hca->ib.num_comp_vectors = 1;
	hca->ib.node_type = RDMA_NODE_IB_CA;
	hca->ib.dev.parent = parent;
	addrconf_addr_eui48((u8 *)&hca->ib.node_guid, netdev->dev_addr);
	ib_set_device_ops(&hca->ib, &rdma_ops);
	error = ib_device_set_netdev(&hca->ib, netdev, 1) ?: ib_register_device(&hca->ib, rdma_name, NULL);
	if (error)
		ib_dealloc_device(&hca->ib);
	return error;
}

/* The NIC */

static int nic_probe(struct platform_device *at)
{
	u8 address[ETH_ALEN];
	int error;

	if (!mac_pton(mac, address))
		return -EINVAL;
	netdev = alloc_etherdev_mqs(sizeof(struct nic), 8, 8);
	if (!netdev)
		return -ENOMEM;
	strscpy(netdev->name, interface, IFNAMSIZ);
	SET_NETDEV_DEV(netdev, &at->dev);
	netdev->netdev_ops = &nic_ops;
	netdev->dcbnl_ops = &dcb_ops;
	netdev->max_mtu = 9978;
	eth_hw_addr_set(netdev, address);
	as_shipped(netdev_priv(netdev));
	error = register_netdev(netdev);
	if (error)
		goto free;
	error = add_rdma(&at->dev);
	if (error)
		goto unregister;
	error = add_files(netdev_priv(netdev), &netdev->dev.kobj, &hca->ib.dev.kobj);
	if (!error)
		return 0;
	remove_files(netdev_priv(netdev));
	ib_unregister_device(&hca->ib);
	ib_dealloc_device(&hca->ib);
unregister:
	unregister_netdev(netdev);
free:
	free_netdev(netdev);
	return error;
}

static int nic_remove(struct platform_device *at)
{
	remove_files(netdev_priv(netdev));
	ib_unregister_device(&hca->ib);
	ib_dealloc_device(&hca->ib);
	unregister_netdev(netdev);
	free_netdev(netdev);
	return 0;
}

static struct platform_driver nic_driver = { .probe = nic_probe, .remove = nic_remove };

static int __init lab_dcb_init(void)
{
	int error;

	nic_driver.driver.name = driver_name;
	error = platform_driver_register(&nic_driver);
	if (error)
		return error;
	platform = platform_device_register_simple(driver_name, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(platform)) {
		platform_driver_unregister(&nic_driver);
		return PTR_ERR(platform);
	}
	if (platform->dev.driver)
		return 0;
	platform_device_unregister(platform);
	platform_driver_unregister(&nic_driver);
	return -ENODEV; /* the kernel's log says why */
}

static void __exit lab_dcb_exit(void)
{
	platform_device_unregister(platform);
	platform_driver_unregister(&nic_driver);
}

module_init(lab_dcb_init);
module_exit(lab_dcb_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for a RoCE NIC with DCB");
