# SPDX-License-Identifier: GPL-3.0-or-later
"""The nouns of the product: identity, changes, problems, verdicts.

Two of them are kept apart on purpose. ``Identity`` is what a node *is* (PCI ids, MACs, OS); the desired state may be computed from it.
Observations (rates, states, counters, MTUs) are what a node *does* at the moment; nothing desired may be computed from those, or an
expectation could be learned from a sick node.

Target code: Python 3.6 and the standard library only.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

# How much a change disturbs a running node, in rising order. ``none`` needs no
# consent; every other class must be named in the inventory's ``rdma_consent``.
DISRUPTIONS = (
    "none", "restart", "link", "repair", "downgrade", "reload", "storage", "management", "secure_boot", "firmware", "reboot")


def heaviest(classes: Sequence[str]) -> str:
    """Of these classes, ``none`` where there is none."""
    return max(classes, key=DISRUPTIONS.index) if classes else "none"


def needs_consent(disruption: str, consent: Sequence[str]) -> bool:
    """Whether a change of this class is refused under this consent list."""
    return disruption != "none" and disruption not in consent


class Nic(NamedTuple):
    """A network interface as an identity: nothing here changes with its health."""

    name: str
    mac: str  # lower case, colons; permanent address where the kernel tells it
    pci: Optional[str]  # 0000:1a:00.0
    driver: Optional[str]
    kind: str  # ethernet, infiniband, virtual, loopback
    management: bool  # carries the default route or the controller's connection, or lies below what does
    uplink: Optional[int] = None  # 0, 1 … for those that carry it themselves, the one that the kernel prefers first
    bond: Optional[str] = None  # the bond that it is a member of: that one carries the addresses


class Hca(NamedTuple):
    """An RDMA device as an identity."""

    name: str  # mlx5_0; not stable across driver changes, never a key in an inventory
    node_guid: Optional[str]  # b8ce:f603:00ab:cdef
    pci: Optional[str]
    driver: Optional[str]
    netdevs: Tuple[str, ...]
    ports: Tuple[int, ...]
    port_guids: Tuple[str, ...]
    link_layer: Optional[str]
    port_netdevs: Tuple[str, ...] = ()  # beside ports, "" where a port has none
    device_id: Optional[str] = None  # 0x1021; which generation it is


class Gpu(NamedTuple):
    """An NVIDIA GPU on the PCI bus as an identity: there with or without a driver."""

    pci: str  # 0000:3b:00.0
    device_id: str  # 0x2330
    numa_node: Optional[int]


class Platform(NamedTuple):
    """What /etc/os-release says, reduced to what decides."""

    id: str  # debian, ubuntu, rocky, alinux …
    version: str  # VERSION_ID
    codename: str
    like: Tuple[str, ...]
    pretty: str
    family: str  # debian, redhat, suse or unknown
    package_manager: str  # apt, dnf, yum, zypper or unknown


class Identity(NamedTuple):
    """What a node is. Pure input of every ``desired`` function."""

    hostname: str
    platform: Platform
    kernel: str
    arch: str
    python: str
    virtual: Optional[str]  # kvm, container … or None on bare metal
    nics: Tuple[Nic, ...]
    hcas: Tuple[Hca, ...]
    capabilities: Tuple[str, ...]  # cpufreq, numa_balancing, systemd, networkd, nmcli …
    gpus: Tuple[Gpu, ...] = ()
    nvswitches: Tuple[str, ...] = ()  # PCI addresses; a fabric manager is needed where there is one
    switch_functions: Tuple[str, ...] = ()  # PCI addresses of functions that manage NVSwitches of NVLink 5: they are no HCAs
    unread_functions: Tuple[str, ...] = ()  # of InfiniBand functions that may be such: their VPD cannot be read

    def has(self, capability: str) -> bool:
        return capability in self.capabilities


# A change of these can cut the connection: the node reverts it unless the controller confirms it.
CONFIRMED_AREAS = ("network", "firewall", "ipoib", "roce_qos")
PRESENT = "present"  # ``after`` of a package of which any version will do
NOW, AT_BOOT = "now", "boot"  # when a change has its effect; AT_BOOT: at the next boot and not before
# What a change is about. DRIVER: one that DKMS builds from source that a role brings. FIRMWARE: by PSID. SETTING: what has no name.
SUBJECTS = ("file", "package", "unit", "module", "driver", "sysctl", "limit", "keyring", "interface", "pci", "firmware", "setting")
FILE, PACKAGE, UNIT, MODULE, DRIVER, SYSCTL, LIMIT, KEYRING, INTERFACE, PCI, FIRMWARE, _SETTING = SUBJECTS


class Subject(NamedTuple):
    """The thing that a change is about. ``name``: path, package, unit, kernel module … as the node knows it."""

    kind: str  # one of SUBJECTS
    name: str


SETTING = Subject(_SETTING, "")


class Op(NamedTuple):
    """One effect. ``kind`` is write, remove, value or run; see ``apply.py``.

    ``content`` of a run is what the command reads from its standard input: it may be secret, and no journal has it.
    """

    kind: str
    path: str
    content: str
    mode: int
    argv: Tuple[str, ...]
    undo: Tuple[Tuple[str, ...], ...]  # run: the commands that revert it, in order
    seconds: float = 120.0  # run: how long the command may take


class Change(NamedTuple):
    """One line of a plan: what differs, why it should not, and how it is fixed.

    ``area`` and ``what`` together name the change for good: the same drift has the same key in every run. ``before`` and ``after`` are JSON
    values (None: absent). ``ops`` is empty for what the playbook carries out and not ``apply``: packages (ansible.builtin installs and
    removes them) and the reboot that makes a setting effective. ``what`` and ``why`` are for people: code reads the fields behind ``ops``.
    """

    area: str
    what: str
    before: Any
    after: Any
    disruption: str
    why: str
    source: str
    ops: Tuple[Op, ...]
    subject: Subject = SETTING
    when: str = NOW  # or AT_BOOT
    rail: Optional[str] = None  # the name of the rail whose interface, port or NIC it is
    needs: Tuple[str, ...] = ()  # keys of changes that come first where the plan has them

    @property
    def key(self) -> str:
        return "%s: %s" % (self.area, self.what)

    @property
    def external(self) -> bool:
        """Made by the playbook (a package, a reboot), not by ``apply`` on the node."""
        return not self.ops

    @property
    def package(self) -> Optional[str]:
        """The name of the package that this change installs, changes or removes (``after`` None), if it is one."""
        return self.subject.name if self.subject.kind == PACKAGE else None

    @property
    def needs_reboot(self) -> bool:
        """Everything is in place and only a reboot makes it effective."""
        return self.external and self.package is None and self.disruption == "reboot"


UNENROLLED = "unenrolled"  # ``code`` of a problem: Secure Boot does not know DKMS's key; area secure_boot has it enrolled
NO_DEVICE = "no_device"  # ``code`` of a problem: a rail whose device is not on the node; the verdict rail.device says the same


class Problem(NamedTuple):
    """Why a node cannot be planned or must be refused. Never a Change."""

    area: str
    subject: str
    message: str
    code: str = ""  # where code must tell it from others; no part of the JSON form


class Verdict(NamedTuple):
    """One judgement of one thing on one node (or on the cluster: ``node`` is '')."""

    check: str  # stable id: hca.state, port.rate, rail.gid, cluster.mtu …
    node: str
    hca: Optional[str]
    port: Optional[int]
    subject: str  # what was judged, for people: "rail0 (eth1)"
    status: str  # one of VERDICT_STATUSES
    expected: Any
    found: Any
    message: str


SEVERITIES = ("critical", "major", "minor")  # of a drift
CRITICAL, MAJOR, MINOR = SEVERITIES
# unknown: it should be readable and is not. unproven: set up as it should be, but nothing on this node can show that it works.
VERDICT_STATUSES = ("pass", "fail", "warn", "unknown", "unproven", "skipped")


def write_file(path: str, content: str, mode: int = 0o644) -> Op:
    """Replace a file atomically; its old content is kept in the restore point."""
    return Op("write", path, content, mode, (), ())


def remove_file(path: str) -> Op:
    return Op("remove", path, "", 0, (), ())


def set_value(path: str, value: str, back: Optional[str] = None) -> Op:
    """Write a kernel file (/proc/sys, /sys): no rename there, the old value is the undo; ``back`` where it is not written as it reads."""
    return Op("value", path, value, 0, (), () if back is None else ((back,),))


def run(argv: Tuple[str, ...], undo: Tuple[Tuple[str, ...], ...] = (), seconds: float = 120.0, stdin: str = "") -> Op:
    """Run a command; ``undo`` is a tuple of commands that take its effect back.

    A command with an effect of its own must have an undo. One without is a refresh
    (daemon-reload, networkctl reload …) and is repeated after a rollback.
    """
    return Op("run", "", stdin, 0, tuple(argv), tuple(tuple(item) for item in undo), seconds)


def change_as_dict(change: Change) -> Dict[str, Any]:
    """The JSON form of a change: everything a reader needs, no commands."""
    fields = dict(change._asdict(), key=change.key, subject=dict(change.subject._asdict()))
    return {name: value for name, value in fields.items() if name not in ("ops", "needs")}


def as_dicts(items: Any) -> List[Dict[str, Any]]:
    """Verdicts or problems as JSON objects."""
    return [{name: value for name, value in item._asdict().items() if name != "code"} for item in items]
