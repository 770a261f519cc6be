# SPDX-License-Identifier: GPL-3.0-or-later
"""init writes inventories that lint accepts, that explain every key, and that are the examples of the repository."""

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import errors_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS, KEYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from railwright.exitcodes import InputError
from railwright.init import files, write_inventory
from railwright.inventory import load_inventory
from railwright.lint import lint
from railwright.lint_examples import EXAMPLES, left_examples

SITE = "group_vars/all/site.yml"


@pytest.mark.core
@pytest.mark.parametrize("fabric", FABRICS)
def test_lint_accepts_it_without_a_word(tmp_path: Path, fabric: str) -> None:
    written = write_inventory(tmp_path / "inv", files(fabric))
    assert written == [tmp_path / "inv/hosts.yml", tmp_path / "inv" / SITE]
    assert lint(tmp_path / "inv") == []
    assert len(load_inventory(tmp_path / "inv").hosts) == 2


@pytest.mark.core
@pytest.mark.parametrize("fabric", FABRICS)
def test_the_minimal_form_is_short_and_has_nothing_that_lint_would_say(tmp_path: Path, fabric: str) -> None:
    assert write_inventory(tmp_path / "inv", files(fabric, minimal=True)) == [tmp_path / "inv/hosts.yml"]
    assert len((tmp_path / "inv/hosts.yml").read_text(encoding="utf-8").splitlines()) <= 15
    inventory = load_inventory(tmp_path / "inv")
    assert lint(tmp_path / "inv") == left_examples(inventory) == []
    assert [len(values["rdma_rails"]) for values in inventory.hosts.values()] == [2, 2]


@pytest.mark.parametrize("fabric", FABRICS)
def test_lint_names_each_example_that_was_left(tmp_path: Path, fabric: str) -> None:
    """Addresses and MACs of the template, each with its file, line and key."""
    write_inventory(tmp_path, files(fabric))
    lines = (tmp_path / "hosts.yml").read_text(encoding="utf-8").splitlines()
    found = left_examples(load_inventory(tmp_path))
    assert {item.severity for item in found} == {"warning"}
    written = {number for number, line in enumerate(lines, 1) if re.search(r"^ +(ansible_host|address|match: \{mac)", line)}
    assert {item.line for item in found} == written
    assert all(str(item.value) in lines[(item.line or 0) - 1] and item.file == str(tmp_path / "hosts.yml") for item in found)
    assert {item.key for item in found} >= {"ansible_host", "rdma_rails[0].address", "rdma_rails[1].address"}


@pytest.mark.parametrize(("value", "is_example"), [
    ("192.0.2.255", True), ("http://198.51.100.7:80/x", True), ("203.0.113.0/24", True), ("2001:db8::1", True), ("2001:0DB8:1::/64", True),
    ("https://mirror.example.com/simple", True), ("02:00:00:00:02:01", True), ("0200:0003:0000:0100", True), ("192.0.20.1", False),
    ("10.192.0.2", False), ("192.0.2", False), ("192.0.2.1.5", False), ("2001:db80::1", False), ("example.company", False),
    ("myexample.com", False), ("02:00:00:00:03:01", False), ("0000:1a:00.0", False)])
def test_what_an_example_is(value: str, *, is_example: bool) -> None:
    assert any(pattern.search(value) for pattern, _said in EXAMPLES) is is_example


@pytest.mark.parametrize("fabric", FABRICS)
def test_the_examples_are_what_it_writes(fabric: str, repository: Path) -> None:
    example = repository / "inventories" / fabric
    there = {str(path.relative_to(example)): path.read_text(encoding="utf-8") for path in example.rglob("*") if path.is_file()}
    assert there == files(fabric)


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_key_is_explained(fabric: str) -> None:
    site = files(fabric)[SITE]
    for key in KEYS:
        if key.name != "rdma_rails":
            assert len(re.findall(rf"^(?:# )?{key.name}: ", site, re.MULTILINE)) == 1, key.name
    assert site.count("Allowed: ") == len(KEYS) - 1
    assert re.search(r"^rdma_mtu: \d+$", site, re.MULTILINE), "the MTU is set, at top level"
    assert set(yaml.safe_load(site)) == {"rdma_fabric", "rdma_mtu"} | ({"erdma_instance_type"} if fabric == "erdma" else set())


# A version says of what: these keys are refused without the one above them in the file.
ABOVE = {"gpu_driver_version": "gpu_driver_branch", "cuda_cudnn_version": "cuda_version"}
AIACC = {
    "rdma_fabric": "erdma", "rdma_mtu": 1400, "rdma_nccl_profile": "erdma-aiacc", "rdma_artifact_pins": {"aiacc_nccl_plugin_rpm": "0" * 64},
}  # fmt: skip
# And these say how something is brought that is not brought by default.
WITH = {
    "nccl_version": {"nccl_install": "wheel", "nccl_wheel_index": "https://mirror.example.com/pypi"},
    "nccl_archive": {"nccl_install": "source"},
    "mpi_version": {"mpi_install": "openmpi"},
    "mpi_archive": {"mpi_install": "hpcx"},
    "aiacc_url": AIACC,
    "aiacc_archive": AIACC,
    "nccl_tests_nfs": {"nccl_tests_path": "/srv/nccl-tests"},
    "nccl_tests_slurm_host": {"nccl_tests_launcher": "slurm"},
}
VENV = {"ai_environment_kind": "venv", "ai_environment_torch": "2.9.1"}
WHEELS = {"ai_environment_wheels": "/srv/wheels"}
INDEX = {"ai_environment_index_url": "https://mirror.example.com/simple", "ai_environment_requirements": "/srv/torch.lock"}
CONDA = {
    **VENV, "ai_environment_kind": "conda", "ai_environment_conda_installer": "/srv/Miniforge3.sh",
    "ai_environment_conda_installer_sha256": "0" * 64, "ai_environment_conda_explicit": "/srv/explicit.txt",
}
# An instance type has less than this example, which is another fabric's.
WITH["validate_min_bandwidth_gbps"] = {"erdma_instance_type": None}
WITH |= {f"ai_environment_{name}": VENV | WHEELS for name in ("python", "torch", "wheels")}
# An instance type has less than this example, which is another fabric's.
WITH["validate_min_bandwidth_gbps"] = {"erdma_instance_type": None}
WITH |= {f"ai_environment_{name}": VENV | INDEX for name in ("requirements", "index_url", "extra_index_urls")}
WITH |= {f"ai_environment_conda_{name}": CONDA for name in ("installer", "installer_sha256", "explicit")}


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("key", [key.name for key in KEYS if key.name != "rdma_rails"])
def test_every_key_can_be_uncommented(fabric: str, key: str) -> None:
    """Taking the # away from one line gives a value that is right for this fabric."""
    site = files(fabric)[SITE]
    values = yaml.safe_load(re.sub(rf"^# ((?:{key}|{ABOVE.get(key, key)}): )", r"\1", site, flags=re.MULTILINE))
    assert key in values
    hosts = yaml.safe_load(files(fabric)["hosts.yml"])["all"]["children"]["rdma"]["hosts"]
    spec, findings = build_spec({**values, **WITH.get(key, {}), **hosts["node1"]}, "node1")
    assert errors_of(findings) == []
    assert spec is not None


@pytest.mark.parametrize("fabric", FABRICS)
def test_addresses_are_for_documentation(fabric: str) -> None:
    addresses = re.findall(r"\d+\.\d+\.\d+\.\d+", files(fabric)["hosts.yml"])
    assert addresses
    assert all(address.startswith(("192.0.2.", "198.51.100.", "203.0.113.")) for address in addresses)
    for mac in re.findall(r'mac: "(..):', files(fabric)["hosts.yml"]):
        assert int(mac, 16) & 2, "a locally administered address is nobody's"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_inventory(tmp_path, files("roce"))
    (tmp_path / "hosts.yml").unlink()
    (tmp_path / SITE).write_text("mine\n", encoding="utf-8")
    for minimal in (False, True):  # beside a site.yml the minimal form would be half of another inventory
        with pytest.raises(InputError, match=rf"{tmp_path}/{SITE}: exists and is not overwritten"):
            write_inventory(tmp_path, files("roce", minimal=minimal))
    assert not (tmp_path / "hosts.yml").exists(), "all or nothing"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"file: is a file; allowed"):
        write_inventory(tmp_path / "file", files("roce"))
    with pytest.raises(InputError, match=r"cannot be written: not a directory"):
        write_inventory(tmp_path / "file" / "below", files("roce"))
    with pytest.raises(InputError, match=r"--fabric ether: is no fabric .* allowed: roce, infiniband, erdma"):
        files("ether")
