# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that must not be set beside others: they would do nothing, or contradict them. One row a rule.

Whoever sets a key expects that it does something, so one that does nothing is an error and not passed over.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.libnccl import IN_PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import VENDORS
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.sysctls import SYSCTLS, canonical
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import LEAVE, MAINLINE

from .check_jobs import CONDA, LOCK, MORE, PYTHON, TORCH, URL, VERSIONS, WHEELS
from .findings import Findings
from .nccl_overrides import LOOPBACK
from .schema import BY_NAME, KEYS

Values = Mapping[str, Any]
FIELDS = frozenset(key.field for key in KEYS)


class Malformed(Exception):
    """A rule reads a key that is an error by itself, which is said already."""


class Checked(dict[str, Any]):
    """The values that are well-formed by themselves, by field. Reading another one ends a rule."""

    def __missing__(self, field: str) -> Any:
        raise Malformed(field) if field in FIELDS else KeyError(field)


class Rule(NamedTuple):
    """``why`` may name fields in braces. A key that has its default, or is false, is not set."""

    keys: tuple[str, ...]
    here: Callable[[Values], Any]
    why: str
    allowed: str
    severity: str = "error"


_ERDMA = tuple(name for name in BY_NAME if name.startswith("erdma_") and name != "erdma_repository")
_NEVER = "is more than rdma_expect.rate_gbps, which is {expect[rate_gbps]}: no healthy rail reaches it"


def _above_rate(values: Values, key: str) -> bool:
    """Of ports whose rate is real: eRDMA's and Soft-RoCE's is a number that says nothing of what they carry."""
    rate = values["expect"].get("rate_gbps")
    real = values["fabric"] != "erdma" and values["rdma_stack"] != "soft_roce"
    return real and None not in (rate, values[key]) and values[key] > rate


LINK_TYPES = {"infiniband": ("IB", "1"), "roce": ("ETH", "2")}
NEIGHBOURS = tuple(f"net/ipv4/neigh/default/gc_thresh{number}" for number in (1, 2, 3))


def _other_link(values: Values) -> bool:
    """Whether the first port is to be of the other kind, and the second one, which may be on purpose, does not make up for it."""
    own, config = LINK_TYPES.get(values["fabric"], ()), values["nic_firmware_config"]
    first, second = (str(config.get(f"LINK_TYPE_P{port}", "")).upper().partition("(")[0] for port in (1, 2))
    return any(first in pair and pair is not own and second not in own for pair in LINK_TYPES.values()) and bool(own)


def _neighbours_upside_down(values: Values) -> bool:
    own = {canonical(name): value for name, value in values["host_tuning_sysctls"].items()}
    wanted = [own.get(row.name, row.value) for row in SYSCTLS if row.name in NEIGHBOURS]
    limits = [int(value) for value in wanted if value is not None and str(value).isdecimal()]
    return limits != sorted(limits)


_UNUSED = "nothing would use it: %s is none"


def _small_nr_open(values: Values) -> bool:
    own = {canonical(name): value for name, value in values["host_tuning_sysctls"].items()}.get("fs/nr_open")
    return own is not None and own.isdecimal() and int(own) < values["host_tuning_nofile"]


RULES = (
    Rule(_ERDMA, lambda v: v["fabric"] != "erdma", "is for eRDMA; rdma_fabric is {fabric}", "unset, or rdma_fabric: erdma"),
    Rule(("erdma_repository",), lambda v: v["fabric"] != "erdma" and v["erdma_repository"] == "true",
         "is for eRDMA; rdma_fabric is {fabric}", "unset, or rdma_fabric: erdma"),
    Rule(("erdma_repository_url", "erdma_repository_key_url"), lambda v: v["fabric"] == "erdma" and v["erdma_repository"] == "false",
         "names a repository, and erdma_repository: false takes the distribution's packages",
         "unset, or erdma_repository: auto or true"),
    Rule(("erdma_driver_version",), lambda v: v["fabric"] == "erdma" and v["erdma_driver"] in (MAINLINE, LEAVE),
         "is a release of Alibaba's driver; erdma_driver is {erdma_driver}", "unset, or erdma_driver: auto or dkms"),
    Rule(("erdma_mode",), lambda v: v["fabric"] == "erdma" and v["erdma_driver"] == LEAVE,
         "is judged and never set: erdma_driver is leave", "another erdma_driver, or auto", "warning"),
    Rule(("network_opensm",), lambda v: v["fabric"] != "infiniband", "a subnet manager runs on InfiniBand; rdma_fabric is {fabric}",
         "false, and no host in group opensm"),
    Rule(("rdma_stack_version", "rdma_stack_profile", "rdma_stack_repository_url", "rdma_stack_repository_key_url",
          "rdma_stack_repository_fingerprint", "rdma_stack_offline_package"), lambda v: v["rdma_stack"] not in (*VENDORS, "auto"),
         "is for a vendor's stack; rdma_stack is {rdma_stack}", "unset, or rdma_stack: doca or mlnx_ofed"),
    Rule(("rdma_stack_offline_package",), lambda v: v["rdma_stack"] in (*VENDORS, "auto") and v["rdma_stack_repository_url"],
         "is a repository in itself, and rdma_stack_repository_url names another one", "one of the two"),
    Rule(("gpu_driver_version", "gpu_driver_fabricmanager", "gpu_driver_imex_nodes"), lambda v: v["gpu_driver_branch"] is None,
         "does nothing without gpu_driver_branch: no driver is installed", "gpu_driver_branch too, or unset"),
    Rule(("gpu_driver_imex",), lambda v: v["gpu_driver_branch"] is None and v["gpu_driver_imex"],
         "does nothing without gpu_driver_branch: no driver is installed", "gpu_driver_branch too, false, or unset"),
    Rule(("gpu_driver_dcgm",),
         lambda v: v["gpu_driver_dcgm"] and (v["gpu_driver_branch"] is None or v["gpu_driver_source"] == "distribution"),
         "comes with the driver of NVIDIA's CUDA repository", "gpu_driver_branch with gpu_driver_source: cuda_repository, or false"),
    Rule(("cuda_cudnn_version",), lambda v: v["cuda_version"] is None,
         "does nothing without cuda_version: cuDNN is made for one CUDA release", "cuda_version too, or unset"),
    Rule(("gpudirect_min_bandwidth_gbps",), lambda v: not v["gpudirect_traffic"], "is never judged: gpudirect_traffic is false",
         "gpudirect_traffic: true, or no minimum", "warning"),
    Rule(("nccl_version",), lambda v: v["nccl_install"] == "none", "does nothing without nccl_install",
         ", ".join(VERSIONS) + " as nccl_install, or unset"),
    Rule(("nccl_archive",), lambda v: v["nccl_install"] not in IN_PREFIX, "is read only where nccl_install is wheel or source",
         "one of these there, or unset"),
    Rule(("mpi_prefix",), lambda v: v["mpi_install"] != "none",
         "names an MPI of the site, and mpi_install {mpi_install} brings another one", "mpi_install: none, or mpi_prefix unset"),
    Rule(("mpi_version",), lambda v: v["mpi_install"] == "none", "does nothing without mpi_install",
         "openmpi, mpich or hpcx as mpi_install, or unset"),
    Rule(("mpi_archive",), lambda v: v["mpi_install"] != "hpcx", "is HPC-X's archive, and mpi_install is {mpi_install}",
         "mpi_install: hpcx, or unset"),
    Rule(("nccl_tests_version", "nccl_tests_archive"), lambda v: v["nccl_tests_install"] == "prebuilt" and "nccl_tests_path" in v,
         "is for a build; nccl_tests_install is prebuilt", "unset, or nccl_tests_install: build"),
    Rule(("nccl_tests_slurm_options", "nccl_tests_slurm_host"), lambda v: v["nccl_tests_launcher"] != "slurm",
         "is for srun; nccl_tests_launcher is {nccl_tests_launcher}", "unset, or nccl_tests_launcher: slurm"),
    Rule((TORCH, PYTHON, LOCK, WHEELS, URL, *CONDA), lambda v: v["ai_environment_kind"] == "none",
         "does nothing while ai_environment_kind is none", "venv or conda as ai_environment_kind, or unset"),
    Rule(CONDA, lambda v: v["ai_environment_kind"] == "venv", "is read only where ai_environment_kind is conda", "conda there, or unset"),
    Rule((PYTHON,), lambda v: v["ai_environment_kind"] == "conda",
         "is read only where ai_environment_kind is venv; conda's is in " + CONDA[2], "unset"),
    Rule((URL,), lambda v: v["ai_environment_kind"] != "none" and v[WHEELS], f"is not asked where {WHEELS} is set", "one of the two"),
    Rule((MORE,), lambda v: v["ai_environment_kind"] != "none" and v[URL] is None, f"does nothing without {URL}",
         f"{URL} too, or an empty list"),
    Rule(("aiacc_url", "aiacc_archive"), lambda v: not v["aiacc_install"], "does nothing without aiacc_install",
         "unset, or aiacc_install: true"),
    Rule(("aiacc_archive",), lambda v: v["aiacc_install"] and v["aiacc_url"], "says where the package is, and so does aiacc_url",
         "one of the two"),
    Rule(("containers_gpu",), lambda v: v["containers_gpu"] == "nvidia" and v["containers_runtime"] in ("podman", "nerdctl"),
         "the nvidia runtime is docker's; {containers_runtime} takes CDI", "auto, cdi, or none"),
    Rule(("containers_toolkit_install",), lambda v: v["containers_runtime"] == "none", _UNUSED % "containers_runtime",
         "false, or another value for containers_runtime"),
    Rule(("containers_toolkit_install",), lambda v: v["containers_gpu"] == "none", _UNUSED % "containers_gpu",
         "false, or another value for containers_gpu"),
    Rule(("upgrade_drain_command", "upgrade_drained_command", "upgrade_undrain_command"), lambda v: v["upgrade_scheduler"] != "command",
         "is for upgrade_scheduler: command; it is {upgrade_scheduler}", "unset, or upgrade_scheduler: command"),
    Rule(("agent_mode",), lambda v: v["agent_mode"] != "off" and not v["keep_code"], "runs the code that rdma_keep_code leaves there",
         "off, or rdma_keep_code: true"),
    Rule(("agent_flaps", "agent_textfile_directory", "agent_hook_without_agent", "agent_hook_unjudged"), lambda v: v["agent_mode"] == "off",
         "nothing would use it: agent_mode is off", "unset, or another value for agent_mode", "warning"),
    Rule(("rdma_bootstrap_interface",), lambda v: v["bootstrap_interface"] == "lo", LOOPBACK, "an interface that all nodes reach"),
    Rule(("containers_pod_interface",), lambda v: v["containers_pod_interface"] == "lo", LOOPBACK, "the pod's own interface, such as eth0"),
    Rule(("validate_perftest_seconds", "validate_timeout_s"),
         lambda v: v["validate_perftest"] and v["validate_perftest_seconds"] >= v["validate_timeout_s"],
         "validate_timeout_s ({validate_timeout_s}) ends each bandwidth test of validate_perftest_seconds ({validate_perftest_seconds}) "
         "before it is done", "a timeout that is longer than the test, the start of its server included"),
    Rule(("nic_firmware_config",), _other_link,
         "makes the first port of each rail's NIC one of another kind: rdma_fabric is {fabric}",
         "LINK_TYPE_P1: IB for infiniband, ETH for roce"),
    Rule(("host_tuning_sysctls",), _neighbours_upside_down,
         "with the catalogue's values the limits of the neighbour table do not rise from gc_thresh1 to gc_thresh3: entries are thrown away "
         "before the table is full", "gc_thresh1 at most gc_thresh2, at most gc_thresh3"),
    Rule(("host_tuning_sysctls",), _small_nr_open,
         "sets fs.nr_open below host_tuning_nofile ({host_tuning_nofile}): every login would be refused", "fs.nr_open of at least that"),
    Rule(("validate_min_bandwidth_gbps",), lambda v: _above_rate(v, "validate_min_bandwidth_gbps"), _NEVER, "at most the expected rate"),
    Rule(("gpudirect_min_bandwidth_gbps",), lambda v: _above_rate(v, "gpudirect_min_bandwidth_gbps"), _NEVER, "at most the expected rate"),
    Rule(("nccl_tests_launcher",),
         lambda v: (v["upgrade_scheduler"], v["drain_gate"], v["nccl_tests_launcher"]) == ("slurm", "bench", "slurm"),
         "would wait for ever: rdma_drain_gate bench runs on a drained node, and Slurm starts no job there",
         "auto, mpi or local; or rdma_drain_gate: validate"),
    Rule(("nccl_tests_launcher",),
         lambda v: (v["upgrade_scheduler"], v["upgrade_gate"], v["nccl_tests_launcher"]) == ("slurm", "nccl_tests", "slurm"),
         "would wait for ever: upgrade_gate nccl_tests runs on nodes that the upgrade has drained, and Slurm starts no job there",
         "auto, mpi or local; or upgrade_gate: validate"),
)


def check_rules(values: Values, _rails: list[dict[str, Any]], findings: Findings) -> None:
    for rule in RULES:
        with contextlib.suppress(Malformed):
            if rule.here(values):
                for key in (BY_NAME[name] for name in rule.keys):
                    value = values.get(key.field, key.default)
                    if value != key.default and value is not False:
                        findings.add(rule.severity, key.name, value, rule.why.format_map(values), rule.allowed)
