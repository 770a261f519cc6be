// SPDX-License-Identifier: GPL-3.0-or-later
/* Stand-in of ib_core of the vendor's stack: the peer memory interface, and nothing else. */
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include "peer_mem.h"

struct peer {
	struct kobject kobj;
	struct peer_memory_client client;
};

static struct kobject *peers;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *page)
{
	return sysfs_emit(page, "%s\n", container_of(kobj, struct peer, kobj)->client.version);
}
static struct kobj_attribute version_attribute = __ATTR_RO(version);
static struct attribute *peer_attrs[] = { &version_attribute.attr, NULL };
ATTRIBUTE_GROUPS(peer);

static void peer_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct peer, kobj));
}
static struct kobj_type peer_type = {
	.release = peer_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = peer_groups,
};

void *ib_register_peer_memory_client(const struct peer_memory_client *client, void **invalidate)
{
	struct peer *peer = kzalloc(sizeof(*peer), GFP_KERNEL);

	if (!peer)
		return NULL;
	peer->client = *client;
	if (kobject_init_and_add(&peer->kobj, &peer_type, peers, "%s", client->name)) {
		kobject_put(&peer->kobj);
		return NULL;
	}
	return peer;
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *handle)
{
	struct peer *peer = handle;

	kobject_put(&peer->kobj);
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);

void ib_core_standin(void);
void ib_core_standin(void)
{
}
EXPORT_SYMBOL(ib_core_standin);

struct class ib_standin_class = { .name = "infiniband", .owner = THIS_MODULE };
EXPORT_SYMBOL(ib_standin_class);

static int __init standin_init(void)
{
	int error = class_register(&ib_standin_class);

	if (error)
		return error;
	peers = kobject_create_and_add("memory_peers", mm_kobj);
	if (peers)
		return 0;
	class_unregister(&ib_standin_class);
	return -ENOMEM;
}

static void __exit standin_exit(void)
{
	kobject_put(peers);
	class_unregister(&ib_standin_class);
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in of a test for ib_core");
MODULE_VERSION(STANDIN_VERSION);
