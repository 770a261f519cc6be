# SPDX-License-Identifier: GPL-3.0-or-later
"""Every parser of foreign text: samples of what it reads, and the errors that it may raise. A new parser is one row.

``text``: the samples are changed as text; ``json``: they are documents, of which values change type; ``node``: an inspection of a node that
answers every file, directory and command with the same changed text. test_fuzz.py runs the rows, benchmarks/parsers.py times them.
"""

import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import strategies as st
from tests.hostile.samples import (
    ADDRESS,
    APT_SIMULATED,
    ARMOUR,
    AUTHORIZED,
    CDI,
    DCB,
    DEB822,
    DEVINFO,
    DNF_TABLE,
    DOCUMENTS,
    EXPLICIT,
    FAILED,
    IB8,
    IMAGE,
    INI,
    INTERFACES,
    INVENTORY,
    IPTABLES,
    JOURNALS,
    KEYFILE,
    KUBE_NODE,
    LOCK,
    LOG,
    MENU,
    MLNX_QOS,
    MSTCONFIG,
    MSTFLINT,
    NETWORK,
    NFT,
    NODES,
    PERFTEST,
    POD,
    QOS_BOOT,
    RAIL,
    RECORD,
    REPO,
    REPORT,
    RESERVATION,
    RESTORE,
    ROLLBACK,
    ROUTE,
    RPM,
    RULE,
    SH,
    SLURM,
    SOURCES,
    SSHD,
    STATUS,
    SYSTEM,
    TABLE,
    TOP_LINE,
    TOP_RECORDING,
    TOPO,
    TORCHRUN,
    XML,
)
from tests.lib import foreign, profile_trees

from ansible_collections.railwright.rdma.plugins.module_utils.apply import journal
from ansible_collections.railwright.rdma.plugins.module_utils.areas.common import package_changes  # fmt: skip
from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma import erdma as erdma_load
from ansible_collections.railwright.rdma.plugins.module_utils.areas.firewall import ufw
from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import docker
from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import kernel_args
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import evidence, persistent, routes
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.managers import ifupdown, ini, networkd, nm  # fmt: skip
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms as dkms_area
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import repository_files
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import sysctl
from ansible_collections.railwright.rdma.plugins.module_utils.entry import upgrade  # fmt: skip
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError, UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats import (
    nccl_conf,
    openpgp,
    outside,
    program_output,  # fmt: skip
    versions,
)
from ansible_collections.railwright.rdma.plugins.module_utils.formats import sysfs_values as parse
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.measure import part_health, perftest, perftest_node, ping
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp import failure
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import affinity as nearness
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import (
    collect,
    dumps,
    json_report,
    probe,
    text_report,
    transport,
)
from ansible_collections.railwright.rdma.plugins.module_utils.observe import (
    affinity,
    aiacc,
    boot,
    containers,
    devices,
    dkms,
    erdma,
    firewall,
    firmware,
    gpu_driver,
    gpu_health,
    gpudirect,
    hca,
    identity,
    modules,
    mpi,
    nccl,
    nccl_libraries,
    nftables,
    nics,
    nvidia_smi,
    package_locks,
    packages,
    pci,
    processes,
    provenance,
    qos_boot,
    qos_dcb,
    ranks,
    stack,
    storage,
    traffic_counters,
)
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.health import most_supported
from ansible_collections.railwright.rdma.plugins.module_utils.plan import preflight
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages import dry_run_apt, dry_run_dnf
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import mount, toolchain
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env import lock, manifest
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import packages as old_packages
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import plan as rollback_plan
from ansible_collections.railwright.rdma.plugins.module_utils.rules import packet_filter
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import kubernetes, slurm
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import slurm as slurm_hostlist
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import SchedulerError
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import files
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import node as ssh_mesh_node
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests import judge
from railwright import documents, drift, events, inventory_index, runs
from railwright.exitcodes import CommandError, InputError
from railwright.lab import image, state
from railwright.lab.state import LabPaths
from railwright.lab.tools import LabError
from railwright.nccl import log, settings
from railwright.top import picture, sample
from railwright.upgrade import journal as upgrade_journal
from railwright.writing import json_text

Parse = Callable[[str], object]
Look = Callable[[foreign.Telling], object]
HEAVY = 8  # examples of a row that takes a whole node, where the others have 40


class Row(NamedTuple):
    """``parse`` takes what ``inputs`` draws and may raise ``errors``; ``samples`` are texts that a megabyte is made of."""

    name: str
    parse: Callable[[Any], object]
    inputs: st.SearchStrategy[Any]
    errors: tuple[type[Exception], ...]
    samples: tuple[str, ...] = ()
    heavy: bool = False
    documents: bool = False  # the samples are JSON


def text(name: str, parse: Parse, *samples: str, errors: tuple[type[Exception], ...] = ()) -> Row:
    return Row(name, parse, foreign.texts(samples), errors, samples)


def document(name: str, parse: Parse, *samples: object, errors: tuple[type[Exception], ...] = ()) -> Row:
    return Row(name, parse, foreign.documents(samples), errors, tuple(map(json.dumps, samples)), documents=True)


def node(name: str, look: Look, *samples: str, errors: tuple[type[Exception], ...] = ()) -> Row:
    return Row(name, lambda said: look(foreign.Telling(said)), foreign.texts(samples), errors, samples)


def told(name: str, look: Look, *samples: object, errors: tuple[type[Exception], ...] = ()) -> Row:
    """A node whose commands answer with JSON."""
    return document(name, lambda said: look(foreign.Telling(said)), *samples, errors=errors)


def octets(said: str) -> bytes:
    return said.encode("latin-1", "replace")


# --- what is called ----------------------------------------------------------------------------------------------------------------------


def both(said: str, compare: Callable[[str, str], object]) -> None:
    one, _blank, other = said.partition(" ")
    compare(one, other)


def of_log(said: str) -> None:
    parsed = transport.parse_log(said)
    transport.summary(parsed)
    transport.judge(parsed, "roce")
    log.judge_log(said, gdr=False)


def of_chains(chains: list[dict[str, Any]] | None) -> None:
    """The chains as the plan of the firewall asks them: which packets they let in."""
    for chain in chains or []:
        for rule in chain["rules"]:
            for _field, _same, values in rule["if"]:
                for value in values:
                    packet_filter.span(str(value))
                    packet_filter._ports(str(value))


def of_words(said: str) -> None:
    program_output.reason(said)
    program_output.tail(said)
    assert program_output.one_line(said).isprintable() or said


VALUES: tuple[Callable[[str], object], ...] = (
    *(parse.name, parse.token, parse.enum_text, parse.rate_gbps, parse.lanes, parse.guid, parse.gid, parse.integer, parse.hex_text),
    *(parse.pci_address, parse.last_pci_address, parse.mac_address, parse.mac_of_guid, parse.key_values, parse.natural_key),
    *(outside.whole, outside.number, outside.is_digits, numbers, most_supported),
)


def every_value(said: str) -> None:
    """Each reader of one value."""
    for read in VALUES:
        read(said)


def of_repository(said: str) -> None:
    for name in ("a.repo", "a.sources", "a.list"):
        repository_files.urls_in(name, said)


def of_ssh(said: str) -> None:
    files.authorized(said)
    files.client_user(said)
    files.good_host_keys(said.split("\n"))
    assert files.BEGIN not in files.with_block(said, "").split("\n")  # lines as sshd reads them


def of_failures(said: str) -> None:
    failure.failures_of(outside.list_or_empty(outside.read_json(said)))


def of_routes(said: str) -> None:
    rows = outside.read_json(said)
    routes.route_words(routes.parse_routes(rows, "eth1"))
    routes.parse_rules(rows)
    routes.parse_connected(rows)
    routes.parse_foreign(rows, (47910,))


def of_profiles(said: str) -> None:
    nm._keyfile("x", said)
    nm._ifcfg("x", said)
    networkd.matches(said, "eth1", "aa:bb:cc:dd:ee:ff", "ethernet")
    ifupdown.source_patterns(said)
    ifupdown.interfaces(said)
    persistent.file_words(said)
    ini.list_values(ini.parse(said), "Match", "Name")


def of_menu(host: foreign.Telling) -> None:
    menu = boot.observe_menu(host)
    if menu is not None:
        boot.starts(menu)
        boot.entry_of(menu, "6.1.0-39-amd64")


def of_xml(said: str) -> None:
    for grammar in (dumps.TOPOLOGY, dumps.GRAPHS):
        dumps.read_file(said, grammar)


def of_settings(said: str) -> None:
    for grammar in settings.Grammar:
        settings.settings_of(said, grammar)
    list(settings.options_of(lines_in(said)))


def of_wheel(said: str) -> None:
    found = lock.wheel_of(said)
    if found is not None:
        lock.wheel_fits(found, lock.Python(12, "x86_64", (2, 35)))


def lenient(said: str) -> Any:
    """As Ansible reads what a module printed: json.loads, which takes NaN; a text that is no JSON stays one."""
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said


def of_messages(said: str) -> None:
    value = lenient(said)
    json_text(value)
    documents.rollback_document(value)
    for read in (
        documents.bench_document,
        documents.ddp_document,
        documents.reachability_document,
        lambda item: documents.traffic_document(item, "a"),
    ):
        read(value)
    if isinstance(value, dict):
        events.failure_message(value)


@cache
def scratch() -> Path:
    """Where the readers of our own files find them; it goes with the process."""
    directory = tempfile.TemporaryDirectory(prefix="railwright-fuzz-")
    _KEPT.append(directory)
    return Path(directory.name)


_KEPT: list[Any] = []


def at(name: str, said: str) -> Path:
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(said.encode("utf-8", "surrogatepass"))
    return path


def of_run(said: str) -> None:
    at("railwright/runs/20261121T101112Z-plan/run.json", said)
    with mock.patch.dict(os.environ, XDG_STATE_HOME=str(scratch())):
        runs.load_run("20261121T101112Z-plan")


def of_top(said: str) -> None:
    line = sample.read_line(said.encode("utf-8", "replace"))
    sample.view(line, line)


def of_recording(said: str) -> None:
    picture.screen(sample.read_document(said.encode("utf-8", "replace")), picture.Wish())


def of_history(said: str) -> None:
    with mock.patch.dict(os.environ, XDG_STATE_HOME=str(scratch())):
        path = drift.history_path(Path("/i"))
        assert path.is_relative_to(scratch())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(said.encode("utf-8", "surrogatepass"))
        drift.read_history(Path("/i"))


def of_upgrade(said: str) -> None:
    value = lenient(said)
    lines = "\n".join(map(json.dumps, value)) if isinstance(value, list) else said
    upgrade_journal.read_state(at("journal.jsonl", lines + "\n"))


def of_lab(said: str) -> None:
    root = scratch() / "lab"
    path = LabPaths(root).state_file
    at(str(path.relative_to(scratch())), said)
    state.load_state(LabPaths(root))


def of_inventory(name: str) -> Parse:
    return lambda said: inventory_index.build_index(at(name, said))


@cache
def files_of(name: str) -> tuple[str, ...]:
    root = NODES / name
    return tuple(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.is_symlink()))


def edited(name: str) -> st.SearchStrategy[foreign.Edited]:
    return st.builds(lambda file, edits: foreign.Edited(NODES / name, file, edits), st.sampled_from(files_of(name)), foreign.changes)


PLATFORM = identity.observe_identity(foreign.Edited(IB8, "none", ()))
DEBIAN = identity.observe_identity(foreign.Edited(NODES / "doca8", "none", ()))

TABLE_OF_PARSERS = (
    # values
    text(
        "versions, Debian",
        lambda said: both(said, lambda one, other: versions.compare(one, other, "debian")),
        "1:2.3-4~rc1 2.3^git-5",
        "5.10+a 5.9",
    ),
    text(
        "versions, RPM",
        lambda said: both(said, lambda one, other: versions.compare(one, other, "redhat")),
        "1:2.3-4.el9 2.3^git-5",
        "5.10~a 5.9",
    ),
    text(
        "values of sysfs",
        every_value,
        "400 Gb/sec (4X NDR)",
        "4: ACTIVE",
        "0x1f",
        "0000:1b:00.0",
        "aa:bb:cc:dd:ee:ff",
        'ID=debian\nNAME="x y"\n',
    ),
    text("JSON from outside", outside.read_json, json.dumps(NFT), json.dumps(REPORT), errors=(UnreadableText,)),
    text("os-release", identity.platform_of, SYSTEM),
    # schedulers
    text("a host list", slurm_hostlist.expand, "gpu[001-003,7],login1,rack[1-2]n[01-02]", errors=(ValueError,)),
    text("scontrol's nodes", slurm.parse_nodes, SLURM),
    text("scontrol's reservation", slurm.parse_reservation, RESERVATION, errors=(SchedulerError,)),
    text("squeue's jobs", slurm.parse_jobs, "11|RUNNING|gpu[1-2]|me\n12_4|PENDING||me\n", errors=(SchedulerError,)),
    document("kubectl's nodes", kubernetes.parse_nodes, {"items": [KUBE_NODE]}, errors=(SchedulerError,)),
    document("kubectl's pods", kubernetes.parse_pods, {"items": [POD]}, errors=(SchedulerError,)),
    # jobs
    text("nccl-tests' table", text_report.parse, TABLE + LOG),
    document("nccl-tests' file", lambda said: (json_report.parse_json(said), json_report.stripped(said)), REPORT),
    text("NCCL's log", of_log, LOG),
    text("ranks of NCCL's log", nearness.gpus_of_ranks, LOG + TABLE),
    text("a log's telling line", of_words, LOG, "srun: error: x\n\x1b[31mfatal\x1b[0m\r\n=====\n"),
    text("why a job ended", lambda said: judge.why(said, said), TABLE + LOG),
    text(
        "the kept lines of a log",
        lambda said: collect.fitting([line for line in lines_in(said) if collect._KEPT.search(line)], 1000),
        LOG,
    ),
    text(
        "the probe's answers",
        probe.answers,
        'x railwright-probe {"host": "a", "rank": 1, "devices": [["GPU-1", "0000:1b:00.0", 80]], "cuda": "13.0"}\n',
    ),
    text("NCCL's XML", of_xml, XML, errors=(dumps.Unreadable,)),
    text(
        "nccl.conf",
        lambda said: (nccl_conf.conf_variables(said), nccl._conf(said)),
        "# a\nNCCL_DEBUG=INFO\nNCCL_A = b\n",
    ),
    document("a build's manifest", toolchain.read_manifest, {"key": "x", "programs": {"a": "b"}}),
    text("torchrun's log", lambda said: (failure.children(said, 0), failure.last_words(said)), TORCHRUN),
    document("what a rank left", of_failures, [{"rank": 1, "at": 2.5, "message": "x", "kind": "values"}], errors=(UnreadableText,)),
    text("perftest's table", lambda said: (perftest.parse_table(said), perftest.reason(1, said, said, "10.0.0.1")), PERFTEST),
    document("perftest's file", lambda said: perftest.figure("write_bw", "", said), {"results": {"BW_average": 390.5, "MsgRate": 1}}),
    # packages and keys
    Row(
        "keyrings",
        lambda said: (openpgp.fingerprints(octets(said)), openpgp.extract(octets(said), "A" * 40)),
        foreign.texts((ARMOUR, "\x99\x01\x0d\x04" * 9)),
        (),
        (ARMOUR,),
    ),
    text("apt's simulation", dry_run_apt.simulated, APT_SIMULATED),
    text("apt's needs", lambda said: (dry_run_apt._EXACT.findall(said), old_packages.telling(said)), APT_SIMULATED),
    text("dnf's table", lambda said: (dry_run_dnf.parse_table(said), dry_run_dnf._errors(said)), DNF_TABLE),
    text("rpm's list", packages.rpm_lines, RPM),
    node(
        "dpkg's status",
        lambda host: (
            packages.query_packages(host, DEBIAN, ["rdma-core", "mlnx"]),
            packages.all_installed(host, DEBIAN),
            packages.unfinished(host),
            packages.held_packages(host, DEBIAN, ["mlnx"]),
        ),
        STATUS,
    ),
    node(
        "rpm's answers", lambda host: (packages.all_installed(host, PLATFORM), packages.held_packages(host, PLATFORM, ["rdma-core"])), RPM
    ),
    node(
        "newer versions",
        lambda host: [package_changes.candidates(host, name, ["rdma-core"]) for name in ("apt", "dnf", "zypper")],
        "rdma-core:\n  Installed: 1\n  Candidate: 2\n",
        "rdma-core.x86_64  1:2-3  baseos\n",
        "v | x | rdma-core | 1 | 2 | x86_64\n",
    ),
    node(
        "who holds apt",
        lambda host: (package_locks.lock_holder(host, "apt"), package_locks.lock_holder(host, "dnf")),
        "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF\n",
        "4711\n",
    ),
    text("files of repositories", of_repository, REPO, DEB822, SOURCES),
    text("pip's lock", lambda said: lock.parse_lock(said, "lock"), LOCK, errors=(RailwrightError,)),
    text("conda's list", lambda said: lock.parse_explicit(said, "list"), EXPLICIT, errors=(RailwrightError,)),
    text("a wheel's name", of_wheel, "torch-2.9.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl"),
    text("dkms status", dkms.parse_status, "nvidia/580.95.05, 6.8.0-85-generic, x86_64: installed (Diff)\nmlnx, 1.0: added\n"),
    node(
        "dkms' tree",
        lambda host: (dkms.dkms_builds(host), dkms_area._meant_for(host, dkms.Build("a", "1", "6.1", "x86_64", "added"), "6.1")),
        'PACKAGE_NAME=a\nBUILD_EXCLUSIVE_KERNEL="^(6\\.|5\\.).*$"\n',
    ),
    # the network
    told("ip addr", lambda host: (nics.observe_addresses(host), ping.dad_failed(host)), [ADDRESS]),
    told("ip route get", lambda host: ping._route(host, {"address": "10.0.0.1", "source": "10.0.0.2"}), [ROUTE]),
    document("ip route and ip rule", of_routes, [ROUTE, RULE], errors=(UnreadableText,)),
    told("an interface's evidence", lambda host: evidence.observe(host, (RAIL,)), [{**ADDRESS, **ROUTE, **RULE}]),
    node(
        "the network's evidence",
        lambda host: evidence.observe(host, (RAIL,)),
        KEYFILE,
        NETWORK,
        "Id=x\nLoadState=loaded\nActiveState=active\n",
        "0x1003",
    ),
    text("files of network managers", of_profiles, KEYFILE, NETWORK, INTERFACES, 'TYPE=Ethernet\nHWADDR="AA:BB:CC:DD:EE:FF"\nONBOOT=no\n'),
    document("nft's ruleset", lambda said: of_chains(nftables.chains_of(said)), NFT),
    text("iptables' rules", lambda said: of_chains(firewall.iptables_chains(said, "ip")), IPTABLES),
    text(
        "ufw's rules",
        lambda said: [ufw.entry_of(line) for line in lines_in(said)],
        f"### tuple ### allow udp 4791 0.0.0.0/0 any 10.0.0.0/8 in_eth1 comment={ufw._MARK}\n",
    ),
    node(
        "routes and interfaces of /proc",
        lambda host: (nics.observe_nics(host), nics.netdevs_with_address(host, "10.0.0.1"), nics.listening(host)),
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth1 00000000 0100000A 0003 0 0 100 00000000 0 0 0\n",
        "fe800000000000000000000000000001 02 40 20 80 eth1\n",
        "  0: 0100007F:1F90 00000000:0000 0A 0 0 0\n",
    ),
    text("authorized_keys", of_ssh, AUTHORIZED),
    node("sshd -T", lambda host: ssh_mesh_node.ask_sshd(host, ssh_mesh_node.account("root")), SSHD),
    # RDMA
    told("dcb", lambda host: (qos_dcb.read_dcb(host, "eth1"), traffic_counters._dcb(host, "eth1")), DCB),
    text("mlnx_qos", qos_dcb.parse_mlnx_qos, MLNX_QOS),
    text("QoS at boot", lambda said: (qos_boot.sets(qos_boot.lines_of(said)), qos_boot._profile(said)), QOS_BOOT),
    node(
        "ethtool -S",
        lambda host: traffic_counters._ethtool(host, "eth1"),
        "NIC statistics:\n     rx_prio3_pause: 5\n     rx_discards_phy: 99\n",
    ),
    text(
        "mstconfig and mstflint",
        firmware.parse_config,
        MSTCONFIG,
        MSTFLINT,
        "\n-E- Failed to open x.\n",
    ),
    node(
        "firmware tools that fail",
        lambda host: (firmware.query_config(host, "mstconfig", "0000:13:00.0"), firmware.version_in_flash(host, "x", "y")),
        MSTCONFIG,
    ),
    text("ibv_devinfo", hca.parse_devinfo, DEVINFO),
    Row(
        "configuration space",
        lambda said: pci.parse_config(octets(said)),
        foreign.texts(("\x86\x80\x10\x00" * 80, "\x01\x00\x03\xc8" * 1100)),
        (),
        ("\x86\x80\x10\x00" * 80,),
    ),
    node(
        "links of a PCI function",
        lambda host: (pci.link_facts(host, "0000:1b:00.0"), pci.acs_facts(host, ["0000:1b:00.0"])),
        "16.0 GT/s PCIe\n",
        "0x0 0x1 0x200\n",
    ),
    text("nvidia-smi topo -m", affinity.topo_matrix, TOPO),
    node(
        "the GPU's driver",
        lambda host: (
            gpu_driver.loaded_driver(host),
            nvidia_smi.smi_rows(host, ("a", "b")),
            gpu_driver.driver_on_disk(host, "6.1"),
            modules.running_modules(host),
        ),
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release\n",
        "0000:1b:00.0, Enabled\n",
        "nvidia 1 3 a,b, Live 0x0\n",
    ),
    node("GPUs between two rounds", part_health.gpu_health, "0, GPU-6e4d4e0b, 1753024036354, NVIDIA H100\n", "0, 0 us, 12 us\n"),
    text(
        "ss of a job",
        ranks.parse_sockets,
        "0      0        10.89.0.12:38641   10.89.0.13:47142 uid:2000 ino:8587058 sk:3 cgroup:/a <->\n"
        "\t ts sack bbr bytes_sent:13920 bytes_acked:13920 bytes_received:13728 segs_out:52\n",
    ),
    text("ps of all processes", processes.processes_of, "   4711 Dl   os_acquire_rwlock_write          python3\n"),
    document("dcgmi health", gpu_health.dcgm_health, {
        "body": {"Overall Health": {"value": "Failure"}, "GPU": {"children": {"1": {"value": "Failure", "children": {"Errors": {
            "children": {"Memory system": {"value": "Failure", "overflow": ["A pending page", "retirement"]}}}}}}}}}),
    document("dcgmi diag", part_health.diag_results, {
        "DCGM Diagnostic": {"test_categories": [{"category": "Stress", "tests": [{"name": "memory", "results": [
            {"entity_group": "GPU", "entity_id": 1, "status": "Fail", "warnings": [{"error_severity": 5, "warning": "hot"}]}]}]}]},
        "entity_groups": [{"entity_group": "GPU", "entities": [{"entity_id": 1, "serial_num": "1753024036354"}]}]}, {
        "DCGM GPU Diagnostic": {"test_categories": [{"tests": [{"name": "Denylist", "results": [
            {"gpu_ids": "0,1", "status": "PASS", "warnings": ["old"]}]}, None]}]}, "GPU Device Serials": {"0": "1753024036354"}}),
    text("the VPD of an HCA", lambda said: part_health.vpd_serial(octets(said)), "\x82\x01\x00N\x90\x06\x00SN\x03MT1\x78"),
    text("versions of MPI", mpi.version_of, "mpirun (Open MPI) 4.1.6\n", "HYDRA build details:\n    Version:    4.2.0\n"),
    node(
        "NCCL's libraries",
        lambda host: (
            nccl_libraries.cached_libraries(host),
            nccl_libraries.cached_libraries(host, aiacc.PLUGIN),
            nccl_libraries.nccl_libraries(host),
            nccl_libraries.loadable_nccl(host, PLATFORM),
        ),
        "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\n\tlibnccl-net.so (libc6,x86-64) => /opt/x.so\n",
        "NCCL version 2.30.7+cuda13.0\0",
    ),
    node("the eRDMA driver", lambda host: erdma.observe_driver(host, "6.1"), "erdma 1 0 - Live 0x0\n0x1234 ib_register_device\n"),
    text("a module's checksums", lambda said: gpudirect.checksum(said, gpudirect._CRC),
         "0x1a2b3c4d\tib_register_peer_memory_client\tib_core\n"),
    # the system
    text("GRUB's menu", boot.parse_menu, MENU),
    node("what GRUB starts", of_menu, MENU, "saved_entry=gnulinux-advanced>b\nnext_entry=1>0\n"),
    node(
        "kernels and their arguments",
        lambda host: (
            boot.observe_boot(host, "6.1.0-40-amd64"),
            boot.secure_boot(host),
            kernel_args.observe(host, kernel_args.Wanted(True, ("a",), "x86_64")),
        ),
        MENU,
        'args="a b"\n',
    ),
    node(
        "kernel modules",
        lambda host: (modules.loaded_modules(host), modules.module_index(host, "6.1"), modules.available_modules(host, "6.1")),
        "kernel/a/mlx5_core.ko.xz: kernel/b.ko\n",
        "rdma_cm 1 2 a,b, Live 0x0\n",
    ),
    node(
        "storage over RDMA",
        storage.rdma_storage,
        "srv:/a /mnt/a\\040b nfs rw,proto=rdma 0 0\nx /y beegfs cfgFile=/e 0 0\n",
        "connUseRDMA = false\n",
    ),
    node(
        "the IOMMU",
        lambda host: (pci.iommu_facts(host, ["0000:1b:00.0"]), pci.numa_nodes(host)),
        "quiet iommu=pt intel_iommu=on\n",
        "DMA-FQ\n",
    ),
    node(
        "devices of sysfs",
        lambda host: (
            devices.entries(host, "/a"),
            devices.pci_of(host, "/a"),
            hca.sibling_netdevs(host, "mlx5_0"),
            hca.hardware_macs(host),
        ),
        "../../../0000:1b:00.0",
        "aa:bb:cc:dd:ee:ff",
    ),
    node(
        "what jobs get",
        lambda host: [
            nccl.effective(host, carrier, {"NCCL_DEBUG": "INFO"}) for carrier in nccl.observe_carriers(host)],
        "\0NCCL_DEBUG=INFO\0A=b\0",
        "Environment=NCCL_A=$'b c'\n",
        "export NCCL_IB_HCA=mlx5_0\n",
    ),
    node(
        "since when and by whom",
        lambda host: (provenance.package_steps(host), provenance.package_origin(host, "a", ()), provenance.unit_origin(host, "a")),
        "2026-11-20 10:11:12 upgrade rdma-core:amd64 44 45\n",
        "1732100000 1.0-1\n",
        "btime 1732100000\n",
        "X=1234567\n",
    ),
    node("a node before Python's modules", lambda host: preflight.observe_preflight(host, 1.0), "0\n", "1732100000\n"),
    node(
        "versions of the stack",
        lambda host: (stack.observe_stack(host, "6.1", {}), stack.half_installed(host)),
        "MLNX_OFED_LINUX-24.10-2.1.8.0:\n",
        STATUS,
    ),
    text("sysctl.d", sysctl.assignments, "# a\nnet.core.rmem_max = 1\n-net/ipv4/conf.eth0.1/rp_filter=2\n"),
    text("modprobe.d", erdma_load.letters_in, "options erdma compat_mode=Y x=1\n"),
    node("mounts", lambda host: mount.mounted(host, "/nfs/a"), "36 35 98:0 / /nfs/a rw - nfs4 srv:/a rw\n"),
    told(
        "images and runtimes",
        lambda host: (containers.observe_image(host, "docker", "x"), containers.observe_runtimes(host), containers.observe_toolkit(host)),
        IMAGE,
        {"Runtimes": {"nvidia": {"path": "x"}}, "DefaultRuntime": "runc"},
    ),
    text("CDI", lambda said: containers.cdi_spec("/etc/cdi/x.yaml", said), CDI),
    document("daemon.json", docker.settings_of, {"runtimes": {"nvidia": {"path": "x"}}, "default-runtime": "nvidia"}),
    # a node's own records
    told(
        "leases and records",
        lambda host: (upgrade.read(host), perftest_node.read_record(host), manifest.manifest_of(host, "/x")),
        dict.fromkeys(upgrade.Lease._fields, "x"),
        {"servers": [{"pid": 5, "started": "1", "argv": ["a"]}]},
        {"files_sha256": "x"},
    ),
    told("restore points", lambda host: [rollback_plan.has_effect(point) for point in journal.points(host)], RESTORE),
    text(
        "ldd",
        toolchain._MISSING.findall,
        "\tlibmpi.so.40 => not found\n./a: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./a)\n",
    ),
    # whole nodes
    node("facts of a node that says one thing", observe_facts, "eth1", "0x1\n", "mlx5_0 mlx5_1", SYSTEM, "4: ACTIVE"),
    Row("facts of a captured node", observe_facts, edited("doca8"), (), heavy=True),
    Row("facts of an eRDMA node", observe_facts, edited("erdma2"), (), heavy=True),
    Row(
        "the plan of a captured node",
        lambda host: make_plan(host, profile_trees.spec_of("doca8")),
        edited("doca8"),
        (RailwrightError,),
        heavy=True,
    ),
    Row(
        "the plan of an InfiniBand node",
        lambda host: make_plan(host, profile_trees.spec_of("ib8")),
        edited("ib8"),
        (RailwrightError,),
        heavy=True,
    ),
    # the controller
    document("answers of modules", of_messages, FAILED, *DOCUMENTS, ROLLBACK),
    text(
        "a failure's telling line", lambda said: events.telling_line(lines_in(said) or [""]), "Traceback:\n  x\nE: command not found\n"
    ),
    text("scripts of jobs", of_settings, SH),
    text("apt's sources", lambda said: (image._from_list(said), image._from_deb822(said)), SOURCES, DEB822),
    document("a line of top", of_top, TOP_LINE, errors=(Misfit,)),
    document("a recording of top", of_recording, TOP_RECORDING, errors=(Misfit,)),
    document("a stored run", of_run, RECORD, errors=(InputError,)),
    document("the history of drift", of_history, {"schema": 1, "inventory": "i", "nodes": {"a": {"x": "2026"}}}),
    document("the journal of an upgrade", of_upgrade, JOURNALS, errors=(CommandError,)),
    document(
        "a lab's state", of_lab, {"version": state.VERSION, "nodes": [], "hardware": {}, "offset": 0, "image": "x"}, errors=(LabError,)
    ),
    text("an INI inventory", of_inventory("ini/hosts"), INI, errors=(InputError,)),
    text("a YAML inventory", of_inventory("yaml/hosts.yml"), INVENTORY, errors=(InputError,)),
)
