# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the key table (tools/generate); do not edit.
from typing import Any, Dict, List, Literal, Optional, overload

class Keys:
    _values: Dict[str, Any]
    @overload
    def __getitem__(self, key: Literal[
        "artifact_pins", "cabling", "checks", "ddp_benchmark_environment", "expect", "host_tuning_sysctls",
        "nccl_overrides", "nccl_tests_baseline", "nccl_tests_environment", "nccl_tests_min_busbw",
        "nic_firmware_config", "nic_firmware_images", "nic_firmware_versions", "out_of_service", "qos_custom",
        "rdma_stack_offline_package", "rdma_stack_pins", "roce_qos_buffers"]) -> Dict[str, Any]: ...
    @overload
    def __getitem__(self, key: Literal[
        "rails"]) -> List[Dict[str, Any]]: ...
    @overload
    def __getitem__(self, key: Literal[
        "ai_environment_extra_index_urls", "ai_environment_packages", "consent", "cuda_packages",
        "firewall_peers", "gpu_driver_imex_nodes", "leaves", "nccl_tests_slurm_options",
        "pci_tuning_kernel_args", "rdma_stack_allow_removal", "rdma_stack_extra_modules",
        "rdma_stack_extra_packages", "ssh_mesh_addresses", "upgrade_canary", "upgrade_drain_command",
        "upgrade_drained_command", "upgrade_undrain_command"]) -> List[str]: ...
    @overload
    def __getitem__(self, key: Literal[
        "nccl_tests_collectives", "nccl_tests_groups"]) -> Optional[List[str]]: ...
    @overload
    def __getitem__(self, key: Literal[
        "gpu_driver_fabricmanager", "gpu_driver_imex"]) -> Optional[bool]: ...
    @overload
    def __getitem__(self, key: Literal[
        "ddp_benchmark_min_samples_per_s", "gpudirect_min_bandwidth_gbps", "validate_max_latency_us",
        "validate_max_write_latency_us", "validate_min_bandwidth_gbps"]) -> Optional[float]: ...
    @overload
    def __getitem__(self, key: Literal[
        "ddp_benchmark_processes", "job_user_uid", "nccl_tests_iterations", "nccl_tests_timeout_s",
        "nccl_tests_warmup"]) -> Optional[int]: ...
    @overload
    def __getitem__(self, key: Literal[
        "agent_textfile_directory", "ai_environment_conda_explicit", "ai_environment_conda_installer",
        "ai_environment_conda_installer_sha256", "ai_environment_index_url", "ai_environment_python",
        "ai_environment_requirements", "ai_environment_torch", "ai_environment_wheels", "aiacc_archive",
        "aiacc_url", "artifact_mirror", "bootstrap_interface", "checks_release", "containers_image",
        "containers_shm_size", "cuda_cudnn_version", "cuda_repository_fingerprint", "cuda_repository_key_url",
        "cuda_repository_url", "cuda_version", "ddp_benchmark_user", "erdma_driver_version",
        "erdma_instance_type", "erdma_repository_fingerprint", "erdma_repository_key_url",
        "erdma_repository_url", "gpu_driver_branch", "gpu_driver_version", "job_user", "kernel_version",
        "mok_password_hash", "mpi_archive", "mpi_prefix", "mpi_version", "nccl_archive", "nccl_tests_algorithm",
        "nccl_tests_archive", "nccl_tests_begin", "nccl_tests_end", "nccl_tests_inspector", "nccl_tests_nfs",
        "nccl_tests_path", "nccl_tests_slurm_host", "nccl_tests_user", "nccl_tests_version", "nccl_version",
        "nccl_wheel_index", "pci_tuning_isolated_cpus", "rdma_stack_profile",
        "rdma_stack_repository_fingerprint", "rdma_stack_repository_key_url", "rdma_stack_repository_url",
        "rdma_stack_version", "region", "region_worker", "ssh_mesh_user", "upgrade_failure_domain",
        "upgrade_node_name"]) -> Optional[str]: ...
    @overload
    def __getitem__(self, key: Literal[
        "accept_eol", "aiacc_install", "containers_toolkit_install", "cuda_hold", "ddp_benchmark_repeatable",
        "firewall_manage", "gpu_driver_dcgm", "gpu_driver_persistence", "gpudirect_gdrcopy",
        "gpudirect_traffic", "host_tuning_numa_balancing", "job_user_create", "keep_code", "leaf_per_rail",
        "nccl_hold", "nccl_tests_check", "nccl_tests_shared", "network_lldp", "network_manage_addresses",
        "network_opensm", "rdma_stack_kernel_hold", "region_asks_scheduler", "roce_qos_force_tc",
        "roce_qos_manage", "ssh_post_quantum", "validate_perftest"]) -> bool: ...
    @overload
    def __getitem__(self, key: Literal[
        "drain_share", "mass_hours", "mass_share"]) -> float: ...
    @overload
    def __getitem__(self, key: Literal[
        "agent_flaps", "confirm_timeout_s", "ddp_benchmark_batch", "ddp_benchmark_port", "ddp_benchmark_steps",
        "ddp_benchmark_timeout_s", "ddp_benchmark_warmup", "drain_leaf_most", "drain_most",
        "erdma_route_metric", "host_tuning_nofile", "mtu", "nccl_tests_factor", "pci_tuning_max_read_request",
        "preflight_max_clock_skew_s", "preflight_min_free_mb", "rdma_stack_lock_wait_s", "reboot_timeout_s",
        "region_patience", "ssh_mesh_generation", "upgrade_drain_timeout_s", "validate_perftest_iterations",
        "validate_perftest_message_bytes", "validate_perftest_qps", "validate_perftest_seconds",
        "validate_ping_peers", "validate_port", "validate_timeout_s"]) -> int: ...
    @overload
    def __getitem__(self, key: Literal[
        "agent_hook_unjudged", "agent_hook_without_agent", "agent_mode", "ai_environment_kind",
        "ai_environment_owner", "ai_environment_path", "aiacc_version", "containers_gpu",
        "containers_pod_interface", "containers_runtime", "ddp_benchmark_backend", "ddp_benchmark_python",
        "drain_gate", "erdma_driver", "erdma_mode", "erdma_repository", "fabric", "firewall_backend",
        "gpu_driver_flavour", "gpu_driver_source", "gpudirect_path", "host_tuning_governor", "host_tuning_irqs",
        "host_tuning_memlock", "job_user_root", "mpi_install", "nccl_conf_path", "nccl_gid_index",
        "nccl_install", "nccl_prefix", "nccl_profile", "nccl_profile_path", "nccl_tests_install",
        "nccl_tests_launcher", "nccl_tests_network", "nccl_tests_purpose", "nccl_tests_ranks",
        "network_backend", "network_ipoib_mode", "network_source_routing", "pci_tuning_acs", "pci_tuning_iommu",
        "pci_tuning_preemption", "pci_tuning_relaxed_ordering", "preflight_python_package", "qos_profile",
        "rdma_stack", "rdma_stack_activation", "rdma_stack_packages_state", "region_python", "roce_qos_backend",
        "roce_qos_dcbx", "site_bench", "ssh_mesh_state", "upgrade_gate", "upgrade_max_unavailable",
        "upgrade_reboot", "upgrade_scheduler", "upgrade_scheduler_host"]) -> str: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
