# SPDX-License-Identifier: GPL-3.0-or-later
"""Each form says the same container: read back by a shell and by a YAML parser, not compared as text."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright.container_flags import pod_name, rendered
from railwright.container_flags.model import Container, Options, container
from railwright.container_flags.torchrun import Job

from .conftest import Captured

HOSTILE = "a'; rm -rf /home #\n$(id) `id` ${HOME} \\"


def made(node: Captured, job: Job | None = None, **options: Any) -> Container:
    return container("node1", inspect_container_access(node, None, options.get("image")), Options(**options), job or Job())


def words(text: str) -> list[str]:
    """What the program would be started with: a shell itself is asked."""
    functions = "".join(f"{name}() {{ printf '%s\\0' {name} \"$@\"; }}\n" for name in ("docker", "podman", "nerdctl"))
    done = subprocess.run(["sh", "-eu", "-c", functions + text], capture_output=True, check=True, text=True, timeout=60, env={})
    return done.stdout.split("\0")[:-1]


def command(node: Captured, **options: Any) -> list[str]:
    item = made(node, **options)
    assert item.problems == ()
    return words(rendered(None, [item]))


def test_docker(captured: Captured) -> None:
    captured.docker()
    assert command(captured, image="train:1", command=("ibv_devinfo",)) == [
        "docker", "run", "--rm", "--network=host", "--ipc=host", "--ulimit=memlock=-1:-1", "--device=/dev/infiniband/rdma_cm",
        "--device=/dev/infiniband/uverbs0", "--device=/dev/infiniband/uverbs1", "--env=NCCL_IB_TIMEOUT=22",
        "--env=NCCL_SOCKET_IFNAME==eth0", "train:1", "ibv_devinfo"]  # fmt: skip


def test_without_a_command_it_is_a_shell_to_type_in(captured: Captured) -> None:
    found = command(captured, runtime="podman")
    assert found[:5] == ["podman", "run", "--rm", "--interactive", "--tty"]
    assert found[-1] == "IMAGE"


def test_a_docker_that_does_not_run_comes_last(captured: Captured) -> None:
    captured.docker()
    captured.podman()
    assert command(captured)[0] == "docker"
    captured.put("/cmd/docker_info_--format_{{json .}}", '{"ServerErrors": ["Cannot connect to the Docker daemon"]}')
    assert command(captured)[0] == "podman"
    assert command(captured, runtime="docker")[0] == "docker"


def test_umad_and_issm_only_when_they_are_asked_for(captured: Captured) -> None:
    assert not [word for word in command(captured) if "umad" in word or "issm" in word]
    assert {"--device=/dev/infiniband/umad0", "--device=/dev/infiniband/issm0"} <= set(command(captured, mad=True))


def test_shared_memory_of_a_size(captured: Captured) -> None:
    found = command(captured, shm_size="16g")
    assert "--shm-size=16g" in found
    assert "--ipc=host" not in found


def test_a_node_without_devices_has_no_command(captured: Captured) -> None:
    bare = Captured(captured.root + "-bare")
    bare.put("/proc/sys/kernel/hostname", "bare\n")
    assert "no uverbs device" in made(bare).problems[0]


def test_numa_of_what_is_named(with_gpus: Captured) -> None:
    for near, cpus, mems in (("mlx5_1", "16-31,48-63", "1"), ("gpu0", "0-15,32-47", "0"), ("0000:2a:00.0", "16-31,48-63", "1")):
        found = command(with_gpus, near=near, runtime="docker")
        assert [word for word in found if "cpuset" in word] == [f"--cpuset-cpus={cpus}", f"--cpuset-mems={mems}"]
    text = rendered("docker", [made(with_gpus, near="gpu0")])
    assert "# numactl in front of docker run binds the client alone" in text
    assert "numactl" not in rendered("docker", [made(with_gpus)])
    (problem,) = made(with_gpus, near="mlx5_9").problems
    assert problem == ("--near mlx5_9: no HCA, rail or GPU of this node; allowed: gpu0, 0000:1a:00.0, gpu1, 0000:2a:00.0, mlx5_0, "
                       "0000:18:00.0, mlx5_1, 0000:28:00.0")  # fmt: skip


WAYS = {
    "docker with CDI": (lambda node: (node.docker(CDISpecDirs=["/etc/cdi"]), node.toolkit(), node.cdi("580.126.20")), {},
                        ["--device=nvidia.com/gpu=all"]),
    "docker without a specification": (lambda node: (node.docker(CDISpecDirs=["/etc/cdi"]), node.toolkit()), {}, ["--gpus=all"]),
    "docker that does not look": (lambda node: (node.docker(), node.toolkit(), node.cdi("580.126.20")), {}, ["--gpus=all"]),
    "docker's runtime, asked for": (lambda node: node.docker(Runtimes={"nvidia": {}}), {"gpu": "nvidia"},
                                    ["--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all",
                                     "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
    "docker's runtime, nothing else there": (lambda node: node.docker(Runtimes={"nvidia": {}}), {}, [
        "--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
    "podman": (lambda node: (node.podman(), node.cdi("580.126.20")), {}, ["--device=nvidia.com/gpu=all"]),
    "none wanted": (lambda node: node.podman(), {"gpu": "none"}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_the_way_to_the_gpus(with_gpus: Captured, name: str) -> None:
    prepare, options, wanted = WAYS[name]
    prepare(with_gpus)
    found = [word for word in command(with_gpus, **options) if "nvidia" in word.lower() or "gpu" in word]
    assert found == wanted


def test_a_way_that_is_not_set_up_is_told(with_gpus: Captured) -> None:
    with_gpus.podman("4.0.2")
    notes = " ".join(made(with_gpus).notes)
    assert "no CDI specification" in notes
    assert "podman knows CDI from 4.1.0 on" in notes
    with_gpus.docker("24.0.7")
    assert "container toolkit was not found" in " ".join(made(with_gpus).notes)


def test_no_gpu_no_flag(captured: Captured) -> None:
    captured.docker(Runtimes={"nvidia": {}})
    captured.toolkit()
    assert not [word for word in command(captured) if "nvidia" in word.lower() or "gpu" in word]


@pytest.mark.parametrize(("cuda", "driver", "fits"), [
    ("12.4", "580.126.20", True), ("12.8", "525.60.13", True), ("13.0", "575.57.08", False), ("12.4", "470.82.01", False),
    ("14.0", "580.126.20", None),
])
def test_the_images_cuda_against_the_driver(with_gpus: Captured, cuda: str, driver: str, fits: bool | None) -> None:
    with_gpus.driver(driver)
    item = made(with_gpus, image="train:1", image_cuda=cuda)
    assert item.cuda is not None
    assert item.cuda.fits is fits
    assert bool(item.problems) is (fits is False)
    assert item.cuda.message in (*item.notes, *item.problems)


@pytest.mark.parametrize(("variables", "found"), [
    ('"CUDA_VERSION=13.0.1"', "13.0.1"), ('"NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471"', "12.4"),
    ('"CUDA_VERSION=$(id)"', None), ('"PATH=/bin"', None),
])
def test_the_cuda_that_the_image_names(with_gpus: Captured, variables: str, found: str | None) -> None:
    with_gpus.podman()
    with_gpus.put("/cmd/podman_image_inspect_train:1", f'[{{"Config": {{"Env": [{variables}]}}}}]')
    item = made(with_gpus, image="train:1")
    assert item.cuda is not None
    assert ((f"CUDA {found} runs" in item.cuda.message) if found else item.cuda.fits is None), item.cuda


def test_compose_is_the_same_container(with_gpus: Captured) -> None:
    with_gpus.docker()
    with_gpus.toolkit()
    item = made(with_gpus, image="train:1", near="gpu1", shm_size="8g", command=("sh", "-c", "echo $HOME"))
    service = yaml.safe_load(rendered("compose", [item]))["services"]["rdma"]
    assert service["devices"] == [f"/dev/infiniband/{name}:/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs0", "uverbs1")]
    assert (service["network_mode"], service["shm_size"], service["cpuset"]) == ("host", "8g", "16-31,48-63")
    assert service["ulimits"] == {"memlock": {"soft": -1, "hard": -1}}
    assert service["environment"] == {"NCCL_IB_TIMEOUT": "22", "NCCL_SOCKET_IFNAME": "=eth0"}
    assert service["deploy"]["resources"]["reservations"]["devices"] == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
    assert service["command"] == ["sh", "-c", "echo $$HOME"], "Compose makes one dollar of two"
    assert "# Compose has no word for --cpuset-mems=1" in rendered("compose", [item])


def test_a_file_that_a_variable_names_is_there_in_every_form(captured: Captured) -> None:
    captured.put("/opt/site/topo.xml", "<system/>")
    captured.put("/etc/nccl.conf", "NCCL_TOPO_FILE=/opt/site/topo.xml\nNCCL_GRAPH_FILE=/opt/site/missing.xml\n")
    path = "/opt/site/topo.xml"
    assert [word for word in command(captured, runtime="podman") if "volume" in word] == [f"--volume={path}:{path}:ro"]
    service = yaml.safe_load(rendered("compose", [made(captured)]))["services"]["rdma"]
    assert service["volumes"] == [{"type": "bind", "source": path, "target": path, "read_only": True}]
    spec = pod_of(rendered("kubernetes", [made(captured, form="kubernetes")]))["spec"]
    assert spec["volumes"][1:] == [{"name": "file0", "hostPath": {"path": path, "type": "File"}}]
    assert spec["containers"][0]["volumeMounts"][1:] == [{"name": "file0", "mountPath": path, "readOnly": True}]


def test_compose_with_cdi_and_with_the_runtime(with_gpus: Captured) -> None:
    with_gpus.docker(CDISpecDirs=["/etc/cdi"], Runtimes={"nvidia": {}})
    with_gpus.cdi("580.126.20")
    cdi = yaml.safe_load(rendered("compose", [made(with_gpus)]))["services"]["rdma"]
    assert cdi["devices"][-1] == "nvidia.com/gpu=all"
    runtime = yaml.safe_load(rendered("compose", [made(with_gpus, gpu="nvidia")]))["services"]["rdma"]
    assert (runtime["runtime"], runtime["environment"]["NVIDIA_VISIBLE_DEVICES"]) == ("nvidia", "all")


def pod_of(text: str) -> dict[str, Any]:
    return next(item for item in yaml.safe_load_all(text) if item["kind"] == "Pod")


@pytest.mark.parametrize(("fabric", "resource"), [("erdma", "aliyun/erdma"), ("roce", "rdma/rdma_shared_device_a")])
def test_a_pod_on_the_hosts_network(with_gpus: Captured, fabric: str, resource: str) -> None:
    item = made(with_gpus, form="kubernetes", image="train:1", fabric=fabric, shm_size="64g", command=("torchrun", "t.py", "$(A)", "$B"))
    pod = pod_of(rendered("kubernetes", [item]))
    spec, (one,) = pod["spec"], pod["spec"]["containers"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "gpu-host-1"}
    assert one["resources"] == {"limits": {resource: 1, "nvidia.com/gpu": 2}}
    assert one["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert one["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert spec["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}]
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "=eth0"} in one["env"]
    assert one["args"][-3:] == ["t.py", "$$(A)", "$B"], "Kubernetes makes $(A) of $$(A)"
    assert "was not found" not in rendered("kubernetes", [item]), "this node's runtimes are no matter of a pod"


def test_a_pod_with_a_network_of_its_own(with_gpus: Captured) -> None:
    """It has neither the host's NIC nor ib0; rank 0 has a name, from a service that comes with it."""
    with_gpus.put("/etc/nccl.conf", "NCCL_SOCKET_IFNAME==ib0\n")
    options = {"form": "kubernetes", "pod_network": True, "pod_interface": "net1", "rdma_resource": "example.com/vf"}
    first, second = (made(with_gpus, Job(2, rank, "rdma-node1.rdma", 29500, "x"), **options) for rank in (0, 1))
    documents = list(yaml.safe_load_all(rendered("kubernetes", [first, second._replace(node="node2")])))
    assert [(item["kind"], item["metadata"]["name"]) for item in documents] == [("Service", "rdma"), ("Pod", "rdma-node1"),
                                                                                ("Pod", "rdma-node2")]  # fmt: skip
    service, pod = documents[0]["spec"], documents[1]["spec"]
    assert (service["clusterIP"], service["selector"]) == ("None", documents[1]["metadata"]["labels"])
    assert "hostNetwork" not in pod
    assert f"{pod['hostname']}.{pod['subdomain']}" == "rdma-node1.rdma"
    assert pod["containers"][0]["env"] == [{"name": "NCCL_SOCKET_IFNAME", "value": "=net1"}]
    assert pod["containers"][0]["resources"]["limits"] == {"example.com/vf": 1, "nvidia.com/gpu": 2}


@pytest.mark.parametrize("name", ["Node_1.example.com", "x" * 100, "-a-", "ä"])
def test_names_of_pods_are_dns_labels(name: str) -> None:
    found = pod_name(name)
    assert 0 < len(found) <= 63
    assert found == found.lower().strip("-")
    assert found.replace("-", "").isalnum()
    assert found.isascii()


@pytest.mark.parametrize(("system", "step"), [(None, "apt-get install"), ("ubuntu22.04", "apt-get install"), ("rocky9", "dnf install -y")])
def test_a_containerfile(captured: Captured, system: str | None, step: str) -> None:
    text = rendered("containerfile", [made(captured, form="containerfile", image="base:1", image_os=system)])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[:2] == ["ARG BASE=base:1", "FROM ${BASE}"]
    assert any(step in line for line in lines)
    assert ("--image-os" in text) is (system is None)


def erdma(spec: Callable[..., Spec], **values: Any) -> dict[str, Any]:
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:00:00:01"}, "address": "192.0.2.11/28"}]
    wishes = spec(fabric="erdma", mtu=8500, rails=rails, rdma_stack="auto", **values)
    return {"form": "containerfile", "image": "base:1", "fabric": "erdma", "spec": wishes}


@pytest.mark.parametrize(("system", "files", "packages"), [
    ("ubuntu22.04", ("https://mirrors.aliyun.com/erdma/apt/ubuntu/", "jammy/erdma", "/etc/apt/keyrings/railwright-erdma.asc",
                     "Pin-Priority"),
     "libibverbs1 ibverbs-providers ibverbs-utils librdmacm1"),
    ("alinux3", ("baseurl=https://mirrors.aliyun.com/erdma/yum/redhat/8/erdma/x86_64/", "gpgcheck=1", "RPM-GPG-KEY-railwright-erdma"),
     "libibverbs rdma-core librdmacm libibverbs-utils"),
])
def test_the_user_space_of_erdma_comes_from_its_repository(
    captured: Captured, spec: Callable[..., Spec], system: str, files: tuple[str, ...], packages: str
) -> None:
    """Its key is taken by the operator's fingerprint, before anything is installed."""
    options = erdma(spec, erdma_repository_fingerprint="B" * 40, containers_image="x")
    text = rendered("containerfile", [made(captured, image_os=system, **options)])
    for part in (*files, f"--export {'B' * 40} >", "https://mirrors.aliyun.com/erdma/GPGKEY", packages):
        assert part in text, part
    assert text.index("test -s /etc/") < text.index(f"install -y{' --no-install-recommends' if 'apt-get' in text else ''} {packages}")
    run = text.partition("\nRUN ")[2]
    subprocess.run(["sh", "-n", "-c", run], check=True, timeout=60)


@pytest.mark.parametrize(("system", "values", "said"), [
    (None, {}, "say it with --image-os"), ("ubuntu22.04", {}, "set erdma_repository_fingerprint"),
    ("rocky9", {}, "Alibaba has no eRDMA repository for rocky 9"), ("sles15.6", {}, "allowed: a distribution with apt or dnf"),
])
def test_no_image_for_erdma_without(
    captured: Captured, spec: Callable[..., Spec], system: str | None, values: dict[str, Any], said: str
) -> None:
    item = made(captured, image_os=system, **erdma(spec, **values))
    assert said in item.problems[0]
    other = made(captured, **{**erdma(spec, **values), "form": "docker", "image_os": system})
    assert other.problems == (), "it is the image's, and no matter of a container's flags"


@pytest.mark.parametrize(("system", "pin", "tool"), [
    ("ubuntu22.04", "aiacc_nccl_plugin_deb", "dpkg -i /root/aiacc.deb"), ("alinux3", "aiacc_nccl_plugin_rpm", "rpm -i /root/aiacc.rpm"),
])
def test_aiacc_where_the_profile_wants_it(captured: Captured, spec: Callable[..., Spec], system: str, pin: str, tool: str) -> None:
    """Compared with the operator's sha256 before anything of it is run; refused without one."""
    values = {"erdma_repository_fingerprint": "B" * 40, "nccl_profile": "erdma-aiacc"}
    both = {"aiacc_nccl_plugin_deb": "a" * 64, "aiacc_nccl_plugin_rpm": "a" * 64}
    other = {name: value for name, value in both.items() if name != pin}
    (said,) = made(captured, image_os=system, **erdma(spec, **values, artifact_pins=other)).problems
    assert f"set rdma_artifact_pins: {{{pin}: SHA256}}" in said, "the node's package is not the image's"
    pinned = erdma(spec, **values, artifact_pins=both)
    text = rendered("containerfile", [made(captured, image_os=system, **pinned)])
    assert text.index("https://ali-perseus-release") < text.index(f"{'a' * 64}  /root/aiacc") < text.index(tool) < text.index("ldconfig")
    subprocess.run(["sh", "-n", "-c", text.partition("\nRUN ")[2]], check=True, timeout=60)
    assert "aiacc" not in rendered("containerfile", [made(captured, image_os=system, **erdma(spec, erdma_repository_fingerprint="B" * 40))])


def test_aiacc_from_a_file_of_the_site(captured: Captured, spec: Callable[..., Spec]) -> None:
    values = {"aiacc_archive": "/srv/x/aiacc-nccl-plugin-1.1.0.deb", "aiacc_version": "1.1.0", "nccl_profile": "erdma-aiacc"}
    pins = {"aiacc_nccl_plugin_deb-1.1.0": "a" * 64}
    options = erdma(spec, erdma_repository_fingerprint="B" * 40, artifact_pins=pins, **values)
    text = rendered("containerfile", [made(captured, image_os="ubuntu22.04", **options)])
    assert 'COPY ["aiacc-nccl-plugin-1.1.0.deb", "/root/aiacc.deb"]\n' in text
    assert "# put /srv/x/aiacc-nccl-plugin-1.1.0.deb beside this file" in text
    assert "ali-perseus" not in text


def test_a_distribution_with_the_provider_needs_no_repository(captured: Captured, spec: Callable[..., Spec]) -> None:
    text = rendered("containerfile", [made(captured, image_os="ubuntu24.04", **erdma(spec))])
    assert "mirrors.aliyun.com" not in text
    assert "ibverbs-providers" in text


def test_what_the_user_says_is_quoted(captured: Captured) -> None:
    assert command(captured, command=("sh", "-c", HOSTILE))[-3:] == ["sh", "-c", HOSTILE]
    for form in ("compose", "kubernetes"):
        text = rendered(form, [made(captured, form=form, command=("sh", "-c", HOSTILE))])
        found = list(yaml.safe_load_all(text))[-1]
        said = found["services"]["rdma"]["command"] if form == "compose" else found["spec"]["containers"][0]["args"]
        assert said[-1].replace("$$", "$") == HOSTILE


def test_a_hostile_node_says_nothing_that_is_run() -> None:
    """Everything that a node may send, in the worst form: nothing of it is in any text."""
    bad = {
        "hostname": HOSTILE, "infiniband": {"rdma_cm": "yes", "uverbs": [{"name": f"uverbs0 {HOSTILE}"}, "x", None], "mad": [HOSTILE]},
        "hcas": [{"name": HOSTILE, "numa_node": HOSTILE}], "gpus": [{"pci": HOSTILE, "numa_node": HOSTILE}], "driver": HOSTILE,
        "numa": {HOSTILE: HOSTILE}, "files": [HOSTILE, "/a/../b", "/a:b"],
        "variables": {f"A{HOSTILE}": "1", "NCCL_DEBUG": HOSTILE}, "addresses": [HOSTILE],
        "runtimes": [{"name": HOSTILE, "version": HOSTILE, "runtimes": HOSTILE}, HOSTILE], "toolkit": None,
        "cdi": [{"devices": [HOSTILE]}, HOSTILE], "image": {"variables": {"CUDA_VERSION": HOSTILE}, "labels": {}}, "notes": [HOSTILE],
    }  # fmt: skip
    item = container("node1", bad, Options(image="train:1", near="gpu0", mad=True), Job())
    assert len(item.problems) >= 7
    for form in ("docker", "compose", "kubernetes", "containerfile"):
        text = rendered(form, [item])
        code = [line for line in text.splitlines() if not line.startswith("#")]
        assert "rm -rf /home" not in "\n".join(code)
        assert "\n$(id)" not in text
