# SPDX-License-Identifier: GPL-3.0-or-later
"""What the type of a key does not say: each entry of a mapping, each element of a list, and some values as a whole.

A check returns the value in its final form; after an error the key counts as malformed, whatever it returns. Many of these become part of
a file, of a firewall's rule or of a command that runs as root.
"""

import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import artifacts
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.sysctls import canonical
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits, unreachable
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ALL, GROUPS

from . import nic_parameters
from .check_qos import check_buffers, check_custom
from .findings import Findings, did_you_mean, nearest
from .hurtful import check_hurtful
from .mode_entries import CHECKS, DAY, mode_entry
from .nccl_overrides import check_variable
from .schema import FORMS
from .values import as_int, as_number, type_name

COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube",
)
# What a floor or a baseline has figures of: a collective over all nodes, or over a group of them.
FIGURES = COLLECTIVES + tuple(f"{name}/{group}" for name in COLLECTIVES for group in GROUPS if group != ALL)
HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"  # without a user and a password, and with nothing that could be one
URL, URL_FORM = FORMS["url"]["pattern"], FORMS["url"]["form"]
PACKAGE = FORMS["package"]["pattern"]
SYSCTL = r"[a-z0-9_]+([./][A-Za-z0-9_{}@:-]+)+"
SYSCTL_VALUE = r"[\x20-\x7e]+"  # one line, printable
VERSION = r"[A-Za-z0-9][A-Za-z0-9.+:~_-]*"
PARAMETER = r"[A-Z][A-Z0-9_]{1,63}(\[[0-9]{1,3}\])?"
PARAMETER_VALUE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(\([0-9]{1,10}\))?"
PSID = r"[A-Z0-9][A-Z0-9_-]{3,31}"
FIRMWARE = r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{3,5}"
IMAGE_URL = rf"(https?://{HOST}(?=[/?#])|file:///)[A-Za-z0-9._~:/?#@!$&*+,;=%-]+"  # no password: it would stand in every plan
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
INDEX_URL = r"https?://[!-~]+"
PATTERNS = (SYSCTL, SYSCTL_VALUE, VERSION, PARAMETER, PARAMETER_VALUE, PSID, FIRMWARE, IMAGE_URL, VARIABLE, INDEX_URL, PACKAGE, URL,
            *artifacts.FORMS.values())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    count = as_int(value)
    return count if count is not None and count >= 0 else None


EXPECT: dict[str, tuple[Callable[[Any], Any], str]] = {  # what a value is to the check, None: not that; what is allowed
    "rate_gbps": (lambda value: number if (number := as_number(value)) is not None and number > 0 else None, "a number of Gb/s, like 400"),
    "link_layer": (lambda value: value if value in ("InfiniBand", "Ethernet") else None, "InfiniBand, Ethernet"),
    "active_mtu": (lambda value: size if (size := as_int(value)) in (256, 512, 1024, 2048, 4096) else None, "256, 512, 1024, 2048, 4096"),
    "fw_ver": (_text, "a firmware version in quotes, like '28.41.1000'"),
    "hca_type": (_text, "an HCA type as the kernel prints it, like MT4129"),
    "hcas": (_count, "the number of HCAs of the node, at least 0"),
    "gpus": (_count, "the number of NVIDIA GPUs of the node, at least 0"),
    "gpu_driver": (_text, "a driver branch or version in quotes, like '580' or '580.126.20'"),
}
PACKAGE_FORM = "{url: an http, https or file:/// URL, sha256: its checksum}, or {}"
RESERVED = {  # variables of a run that are not the operator's: what ends it, and where its log is read
    "nccl_tests_environment": ("RAILWRIGHT_BENCH", "NCCL_DEBUG_FILE"),
    "ddp_benchmark_environment": ("RAILWRIGHT_BENCH", "TMPDIR", "NCCL_DEBUG_FILE"),
}
TORCHRUN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PEERS_FORM = "a network like 192.0.2.0/24, or an address"
INDEX_FORM = "an http or https URL without user and password in it; pip takes those from the node's netrc"
KERNEL, OUT = "rdma_kernel_version", "rdma_out_of_service"
KERNEL_FORM = "a kernel release as `uname -r` prints it, like 6.1.0-48-amd64, 6.8.0-85-generic, 5.14.0-570.12.1.el9_6.x86_64"
KERNEL_WORDS = ("latest", "newest", "auto", "default", "generic", "cloud")
KERNEL_PACKAGE = re.compile(
    r"(?:linux-(?:image|headers|modules)|kernel(?:-(?:core|devel|modules))?|vmlinu[xz]|initrd\.img)-(?:extra-)?(?=[0-9])")
# Three numbers, then what the distribution adds: a number of its own, and in letters a flavour or an architecture.
KERNEL_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[+-](?=.*[a-z])[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+)*")


def _is(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def sysctl(path: str, name: Any, value: Any, findings: Findings) -> Any:
    """None leaves the catalogue's row out."""
    if not _is(SYSCTL, name) or ".." in name or "//" in name:
        return findings.error(path, value, "is not the name of a sysctl", "a name like net.ipv4.tcp_mtu_probing")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not _is(SYSCTL_VALUE, str(value)):
        return findings.error(path, value, f"must be an integer or one line of text, not {type_name(value)}",
                              "an integer, text, or null to leave it alone")
    check_hurtful(path, canonical(name), str(value), findings)
    return str(value)


def package_version(path: str, name: Any, value: Any, findings: Findings) -> Any:
    if not _is(PACKAGE, name):
        return findings.error(path, value, "is not the name of a package", "a package name")
    if isinstance(value, (int, float)):
        return findings.error(path, value, "was read as a number by YAML; put quotes around the version",
                              "a version in quotes, like '44.0-2'")
    if not _is(VERSION, value):
        return findings.error(path, value, "is not the version of a package", "a version as the package manager prints it, like '44.0-2'")
    return value


def artifact_pin(path: str, name: Any, value: Any, findings: Findings) -> Any:
    """Names that the catalogue has, values of the form that each needs."""
    row = artifacts.find_artifact(name) if isinstance(name, str) else None
    if row is None:
        hint = did_you_mean(str(name), tuple(row.name for row in artifacts.ARTIFACTS))
        return findings.error(path, value, f"is no artifact of the catalogue{hint}", "a name that `railwright artifacts` lists")
    form = artifacts.pin_form(row)
    if not _is(artifacts.FORMS[form], value):
        findings.error(path, value, f"is no {form}, and this artifact is known by one", artifacts.FORM_WORDS[form])
    return value


def offline_package(package: Mapping[Any, Any], findings: Findings) -> Any:
    """{url, sha256} or {}."""
    key = "rdma_stack_offline_package"
    parts = {"url": (URL, URL_FORM), "sha256": (artifacts.FORMS["sha256"], artifacts.FORM_WORDS["sha256"])}
    for name in package:
        if name not in parts:
            findings.error(f"{key}.{name}", package[name], "is no part of a package" + did_you_mean(str(name), tuple(parts)), "url, sha256")
    for name, (pattern, allowed) in parts.items() if package else ():
        value = package.get(name)
        if value is None:
            findings.error(f"{key}.{name}", None, "is missing; a package from a file must be known by its checksum", PACKAGE_FORM)
        elif not _is(pattern, value):
            what = f"is no {name}" if isinstance(value, str) else f"must be text, not {type_name(value)}"
            findings.error(f"{key}.{name}", value, what, allowed)
    return dict(package)


def firmware_parameter(path: str, name: Any, value: Any, findings: Findings) -> Any:
    """The parameters that the catalogue has are judged here; others by the NIC, after a warning where the name looks like a slip."""
    if not _is(PARAMETER, name):
        return findings.error(path, value, "is not the name of a firmware parameter", "a name as mstconfig prints it: NUM_OF_VFS, NAME[0]")
    if isinstance(value, float) or not isinstance(value, (bool, int, str)):
        return findings.error(path, value, f"must be true, false, an integer or a word, not {type_name(value)}", "true, 16, ETH, True(1)")
    if not _is(PARAMETER_VALUE, str(value)):
        return findings.error(path, value, "is not a value of a firmware parameter", "true, false, an integer from 0, or a word like ETH")
    row = nic_parameters.find_parameter(name)
    meant = nearest(re.sub(r"_P[1-4]\Z", "_P1", name), nic_parameters.NAMES) if row is None else None
    if meant is not None:
        findings.warning(path, value, f"is no parameter that railwright knows; did you mean {meant}? The NIC decides")
    if row is not None and not nic_parameters.value_fits(row, value):
        findings.error(path, value, f"is not a value that {name} can have ({row.meaning})", nic_parameters.allowed(row))
    return value


def firmware_version(path: str, psid: Any, version: Any, findings: Findings) -> Any:
    if _is_psid(path, psid, findings) and not _is(FIRMWARE, version):
        findings.error(path, version, "is not a firmware version", "a version in quotes, like '28.47.1080'")
    return version


def firmware_image(path: str, psid: Any, image: Any, findings: Findings) -> Any:
    if not _is_psid(path, psid, findings):
        return None
    if not isinstance(image, dict) or set(image) != {"url", "sha256"}:
        return findings.error(path, image, "must hold url and sha256 and nothing else", "{url: https://…, sha256: 64 hexadecimal digits}")
    if not _is(IMAGE_URL, image["url"]):
        findings.error(path + ".url", image["url"], "is no URL", "an http, https or file URL")
    elif not _is(artifacts.FORMS["sha256"], str(image["sha256"])):
        findings.error(path + ".sha256", image["sha256"], "is no SHA-256 checksum", "64 lower-case hexadecimal digits, from sha256sum")
    return image


def _is_psid(path: str, psid: Any, findings: Findings) -> bool:
    good = _is(PSID, psid)
    if not good:
        findings.error(path, psid, "is not a PSID", "the board's id as /sys/class/infiniband/DEVICE/board_id has it, like MT_0000000838")
    return good


def expectations(expect: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in expect.items():
        path = f"rdma_expect.{name}"
        if name not in EXPECT:
            findings.error(path, value, f"nothing of this name is judged{did_you_mean(str(name), tuple(EXPECT))}", ", ".join(EXPECT))
        elif value is not None:
            converted, allowed = EXPECT[name]
            checked[name] = None if isinstance(value, bool) else converted(value)
            if checked[name] is None:
                findings.error(path, value, f"is not what {name} can be ({type_name(value)})", allowed)
    return checked


def once_each(key: str, what: str, allowed: tuple[str, ...]) -> Callable[[list[str], Findings], list[str]]:
    def check(names: list[str], findings: Findings) -> list[str]:
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names:
            findings.error(key, names, "is empty: nothing would be run", ", ".join(allowed))
        if twice:
            findings.error(key, names, f"names {', '.join(twice)} twice", f"each {what} once")
        return names

    return check


def busbw(path: str, name: Any, value: Any, findings: Findings) -> Any:
    number = as_number(value)
    if name not in FIGURES:
        findings.error(path, value, f"is no collective of nccl-tests{did_you_mean(str(name), COLLECTIVES)}", ", ".join(COLLECTIVES))
    elif number is None or number <= 0:
        found = type_name(value) if number is None else "that"
        findings.error(path, value, f"must be a positive number, not {found}", "GB/s, such as 340")
    return number


def variable(path: str, name: Any, value: Any, findings: Findings) -> Any:
    """Of a run's environment: any but those by which torchrun and railwright tell a rank who it is."""
    key = path.partition(".")[0]
    if key == "ddp_benchmark_environment" and name in TORCHRUN:
        return findings.error(path, value, "is what torchrun tells each rank", "other variables")
    if not _is(VARIABLE, name):
        return findings.error(path, value, "is no name of a variable", "letters, digits and _")
    if name in RESERVED[key]:
        return findings.error(path, value, "is set by railwright itself: it finds the run and its log by it", "other variables")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return findings.error(path, value, f"must be text, not {type_name(value)}", "text, in quotes")
    if re.search(r"[\x00-\x1f\x7f]", str(value)):
        return findings.error(path, value, "holds a line break or a control character", "text of one line")
    check_variable(name, str(value), path, findings)
    return str(value)


def address(path: str, _at: int, text: str, findings: Findings) -> Any:
    """In its canonical form: it becomes from= of a key and a name in a client's configuration, so nothing but addresses may pass."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return findings.error(path, text, "is no IP address", "an address like 192.0.2.11, without a prefix")
    if unreachable(found):
        return findings.error(path, text, "is not an address that other nodes reach this one at",
                              "a unicast address, neither loopback nor link-local")
    return str(found)


def peer(path: str, _at: int, text: str, findings: Findings) -> Any:
    """In its canonical form: it becomes a rule of a firewall, so nothing but networks may pass, and no network that is everybody."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return findings.error(path, text, "is no IP address and no network", PEERS_FORM)
    host = ipaddress.ip_interface(text).ip
    if "/" in text and host != network.network_address:
        return findings.error(path, text, f"has bits behind its prefix: the network is {network}, the address {host}", PEERS_FORM)
    if network.prefixlen < 7:  # fc00::/7 are all private addresses of IPv6
        return findings.error(path, text, "is everybody, not the cluster's nodes", PEERS_FORM)
    if network.is_loopback or network.is_multicast or network.is_unspecified:
        return findings.error(path, text, "is nothing that other nodes come from", PEERS_FORM)
    return str(network)


def index(path: str, _at: int, url: str, findings: Findings) -> str:
    """No value in the finding where a password may stand in it."""
    if "@" in url and not re.match(rf"https?://{HOST}(?![^/?#])", url):
        findings.error(path, None, "has a user or a password in it; it is not shown here", INDEX_FORM)
    elif not _is(INDEX_URL, url):
        findings.error(path, url, "is no URL of a package index", INDEX_FORM)
    return url


# Of a golden run: type, and what is allowed.
BASELINE: dict[str, tuple[type, str]] = {
    "nodes": (int, "a number of nodes"), "ranks": (int, "a number of ranks"), "gpu": (str, "the GPUs' name"),
    "launcher": (str, "a launcher"), "versions": (dict, "driver, cuda, nccl, mpi and nccl_tests, as text"),
    "approved_by": (str, "who signed it"), "date": (str, "a date, in quotes"), "run": (str, "the run that it is of"),
    "busbw": (dict, "GB/s above 0, by collective"),
}


def baseline(value: dict[str, Any], findings: Findings) -> dict[str, Any]:
    """Whole or not at all: half of one would be judged by."""
    for name in [name for name in (*BASELINE, *value) if value and (name not in value or name not in BASELINE)]:
        wrong = "is missing: bench --save-baseline writes it" if name in BASELINE else "is nothing that a baseline holds"
        findings.error(f"nccl_tests_baseline.{name}", None, wrong, BASELINE[name][1] if name in BASELINE else ", ".join(BASELINE))
    for name, own in value.items():
        kind, allowed = BASELINE.get(name, (object, ""))
        if not isinstance(own, kind) or isinstance(own, bool) or own in ("", {}) or (isinstance(own, int) and not 0 < own < 1 << 20):
            findings.error(f"nccl_tests_baseline.{name}", None, f"is {type_name(own)}, or empty", allowed)
    for part in ("busbw", "versions") if not findings.has_error("nccl_tests_baseline") else ():
        for name, own in value.get(part, {}).items():
            fits = isinstance(own, str) if part == "versions" else name in FIGURES and is_figure(own)
            if not fits:
                findings.error(f"nccl_tests_baseline.{part}.{name}", None, "is none", BASELINE[part][1])
    return value


def is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e5


def kernel(value: str, findings: Findings) -> str:
    """A release of any distribution as ``uname -r`` prints it: no package, no meta package, no part of a release."""
    package = KERNEL_PACKAGE.match(value)
    if package is not None:
        findings.error(KERNEL, value, "is the name of a package or a file", value[package.end():])
    elif value in KERNEL_WORDS or not is_digits(value[:1]):
        findings.error(KERNEL, value, "names no kernel: one exact release is pinned, so that every node runs the same", KERNEL_FORM)
    elif not KERNEL_RELEASE.fullmatch(value):
        findings.error(KERNEL, value, "is only a part of a release: the distribution's own number, flavour or architecture are missing",
                       KERNEL_FORM)
    return value


def out_of_service(value: dict[str, Any], findings: Findings) -> dict[str, Any]:
    """{} or a reason, and what a person adds to it."""
    wrong = sorted(set(value) - {"reason", "ticket", "until"})
    texts = [name for name, text in value.items() if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= 200]
    if value and (wrong or texts or "reason" not in value):
        what = f"has {wrong[0]}" if wrong else f"has no short line of text for {texts[0]}" if texts else "has no reason"
        findings.error(OUT, value, what, "{}, or {reason: TEXT, ticket: TEXT, until: YYYY-MM-DD}, the last two where you like")
    elif "until" in value and not DAY.fullmatch(value["until"]):
        findings.error(f"{OUT}.until", value["until"], "is no day", "YYYY-MM-DD, in quotes")
    elif value.get("until", "9") < time.strftime("%Y-%m-%d", time.gmtime()):
        findings.warning(f"{OUT}.until", value["until"], "is past, and the node is still out of service", "another day, or {}")
    return value


def cable(path: str, _rail: Any, value: Any, findings: Findings) -> Any:
    """{switch, port}, two short names."""
    good = isinstance(value, dict) and set(value) == {"switch", "port"} and all(
        isinstance(name, str) and name.isprintable() and 0 < len(name) <= 100 for name in value.values())
    return value if good else findings.error(path, value, "says no port of a switch", "{switch: NAME, port: NAME}, both in quotes where "
                                             "they look like numbers")


# (path, name or place, value, findings) -> the entry of a mapping, or the element of a list
ENTRY_CHECKS: dict[str, Callable[[str, Any, Any, Findings], Any]] = {
    "host_tuning_sysctls": sysctl, "rdma_stack_pins": package_version, "rdma_artifact_pins": artifact_pin,
    "nic_firmware_config": firmware_parameter, "nic_firmware_versions": firmware_version, "nic_firmware_images": firmware_image,
    "nccl_tests_min_busbw": busbw, "nccl_tests_environment": variable, "ddp_benchmark_environment": variable,
    "ssh_mesh_addresses": address, "gpu_driver_imex_nodes": address, "firewall_peers": peer, "ai_environment_extra_index_urls": index,
    "rdma_cabling": cable, CHECKS: mode_entry,
}
WHOLE_CHECKS: dict[str, Callable[[Any, Findings], Any]] = {
    OUT: out_of_service, "rdma_expect": expectations, "rdma_stack_offline_package": offline_package, "rdma_qos_custom": check_custom,
    "roce_qos_buffers": check_buffers, "nccl_tests_collectives": once_each("nccl_tests_collectives", "collective", COLLECTIVES),
    "nccl_tests_groups": once_each("nccl_tests_groups", "group", GROUPS), "nccl_tests_baseline": baseline, KERNEL: kernel,
    "ai_environment_index_url": lambda url, findings: index("ai_environment_index_url", 0, url, findings),
}
