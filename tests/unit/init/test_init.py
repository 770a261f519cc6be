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

SITE = "group_vars/all/site.yml"


@pytest.mark.core
@pytest.mark.parametrize("fabric", FABRICS)
def test_lint_accepts_it_without_a_word(tmp_path: Path, fabric: str) -> None:
    written = write_inventory(tmp_path / "inv", fabric)
    assert written == [tmp_path / "inv/hosts.yml", tmp_path / "inv" / SITE]
    assert lint(tmp_path / "inv") == []
    assert len(load_inventory(tmp_path / "inv").hosts) == 2


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
    assert set(yaml.safe_load(site)) == {"rdma_fabric", "rdma_mtu"}


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
WITH |= {f"ai_environment_{name}": VENV | WHEELS for name in ("python", "torch", "wheels")}
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
    write_inventory(tmp_path, "roce")
    (tmp_path / "hosts.yml").unlink()
    (tmp_path / SITE).write_text("mine\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{tmp_path}/{SITE}: exists and is not overwritten"):
        write_inventory(tmp_path, "roce")
    assert not (tmp_path / "hosts.yml").exists(), "all or nothing"
    write_inventory(tmp_path, "erdma", force=True)
    assert "rdma_fabric: erdma" in (tmp_path / SITE).read_text(encoding="utf-8")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"file: is a file; allowed"):
        write_inventory(tmp_path / "file", "roce")
    with pytest.raises(InputError, match=r"cannot be written: not a directory"):
        write_inventory(tmp_path / "file" / "below", "roce")
    with pytest.raises(InputError, match=r"--fabric ether: is no fabric .* allowed: roce, infiniband, erdma"):
        write_inventory(tmp_path / "new", "ether")
