# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/seeds: every command, setting and output of the five documents has its row, and no row names what does not exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import repo
import seed_pages
from seed_documents import LISTS, Document, documents, faults_of_list
from seed_pages import World, faults, rows

LISTED = documents()
NAMES = [document.page for document in LISTED]
FIVE = {"scnet.md", "multi-node.md", "infiniband.md", "roce.md", "erdma.md"}


def page_of(document: Document) -> str:
    return repo.text(f"docs/seeds/{document.page}")


@pytest.fixture(scope="module")
def there() -> World:
    return seed_pages.world()


def test_every_document_has_its_list_and_every_page_belongs_to_one() -> None:
    pages = {name.removeprefix("docs/seeds/") for name in repo.matching("docs/seeds/", suffix=".md")} - {"README.md"}
    assert pages == set(NAMES) == {f"{path.stem}.md" for path in LISTS.glob("*.yml")} == FIVE
    assert all(f"]({page})" in repo.text("docs/seeds/README.md") for page in FIVE)


@pytest.mark.parametrize("document", LISTED, ids=NAMES)
def test_the_list_is_sound(document: Document) -> None:
    assert faults_of_list(document) == []


@pytest.mark.parametrize("document", LISTED, ids=NAMES)
def test_every_item_has_its_row_and_every_row_holds(document: Document, there: World) -> None:
    assert faults(document, page_of(document), there) == []


@pytest.mark.parametrize("document", LISTED, ids=NAMES)
def test_the_inventory_of_a_page_lints_without_a_word(document: Document, tmp_path: Path) -> None:
    """With the hosts of the fabric's example, of which lint says that they are one."""
    blocks = seed_pages.BLOCK.findall(page_of(document))
    (site,) = (text for language, text in blocks if language == "yaml" and text.startswith("rdma_fabric:"))
    shutil.copytree(repo.ROOT / "inventories" / yaml.safe_load(site)["rdma_fabric"], tmp_path / "site")
    (tmp_path / "site/group_vars/all/site.yml").write_text(site)
    environment = os.environ | {"PYTHONPATH": f"{repo.ROOT / '.dev'}:{repo.ROOT / 'src'}", "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run((sys.executable, "-m", "railwright", "lint", "-i", "site"), cwd=tmp_path, env=environment, capture_output=True,
                          text=True, check=False)
    said = [line for line in done.stdout.splitlines() if "kept for examples" not in line and "is the example that" not in line]
    assert (done.returncode, said) == (0, []), done.stdout + done.stderr


def test_the_world_is_this_one(there: World) -> None:
    """Empty sets would let nothing pass, and sets of everything all."""
    assert {"nccl", "validate"} <= there.role
    assert {"rdma_mtu", "nccl_overrides"} <= there.key
    assert {"railwright", "railwright apply", "railwright nccl lint"} <= set(there.verb)
    assert "--consent" in there.verb["railwright apply"]
    assert "railwright.rdma.apply" in there.playbook
    assert {"port.state", "nccl.busbw"} <= there.verdict
    assert not there.role & {"nccl-env", ""}


# One damage to a whole page each: what is replaced, by what, and what is said of it.
DAMAGE = [
    (r"^\| 39 \|.*\n", "", "39: in the list, and no row on the page"),
    (r"^\| 39 \|", "| 40 |", "40: a row, and not in the list"),
    (r"^(\| 39 \|.*\n)", r"\1\1", "rows are not in the order of the document, or one is there twice"),
    (r"`sudo ibstat`", "`sudo ibstatus`", "43: the row says ['sudo ibstatus'], the document ['sudo ibstat']"),
    (r"^(\| 43 \| [^|]+ \|)[^|]+", r"\1 — ", "43: column railwright is empty"),
    (r"^(\| 43 \|.*)\| [^|]+ \|$", r"\1|  |", "43: column proven is empty"),
    (r"^(\| 43 \|.*)\| [^|]+ \|$", r"\1|", "43: column proven is empty"),
    (r"^(\| 43 \|.*)\| [^|]+ \| ([^|]+) \|$", r"\1| - | \2 |", "43: column wrong is empty"),
    (r"role `rdma_stack`", "role `rdma_stax`", "32: no such role: rdma_stax"),
    (r"key `rdma_rails`", "key `rdma_raild`", "42: no such key: rdma_raild"),
    (r"verb `railwright validate`", "verb `railwright valid`", "43: no such verb: railwright valid"),
    (r"verdict `port.state`", "verdict `port.stat`", "43: no such verdict: port.stat"),
    (r"playbook `railwright.rdma.apply`", "playbook `railwright.rdma.aply`", "39: no such playbook: railwright.rdma.aply"),
    (r"\]\(\.\./drivers\.md\)", "](../driver.md)", "38: no such page: ../driver.md"),
    (r"\]\(\.\./drivers\.md\)", "](../drivers.md#which-stacks)", "38: ../drivers.md has no heading which-stacks"),
    (r"role `rdma_stack`", "the role rdma_stack", "32: where: not a reference: the role rdma_stack"),
    (r"tests/unit/checks/test_node\.py", "tests/unit/checks/test_nodes.py", "23: no such test file: tests/unit/checks/test_nodes.py"),
    (r"`tests/unit/checks/test_node\.py", "`tests/lib/repo.py", "23: no such test file: tests/lib/repo.py"),
    (r"::test_one_sickness_is_one_verdict", "::test_one_sickness", "23: tests/unit/checks/test_node.py has no test test_one_sickness"),
    (r"^(\| 43 \|.*\| )[^|]+ \|$", r"\1somebody looked |", "43: proven by: not a test: somebody looked"),
    (r"an Ethernet switch", "以太网交换机", "not English: 以"),
    (r"inventories/roce", "inventories/rocky", "no such inventory: inventories/rocky"),
    (r"\[README\.md\]\(README\.md\)", "[README.md](READ.md)", "no such page: READ.md"),
    (r"^rdma_qos_profile:", "rdma_qos_profil:", "no such key: rdma_qos_profil"),
    (r"railwright apply -i mycluster\n", "railwright aply -i mycluster\n", "no such verb: railwright aply -i mycluster"),
    (r"--os sonic", "--system sonic", "railwright switch hints has no option --system"),
]


@pytest.mark.parametrize(("pattern", "by", "said"), DAMAGE, ids=[said for _pattern, _by, said in DAMAGE])
def test_one_damage_to_a_page_is_found(pattern: str, by: str, said: str, there: World) -> None:
    document = next(item for item in LISTED if item.page == "roce.md")
    whole = page_of(document)
    damaged = re.sub(pattern, by, whole, count=1, flags=re.MULTILINE)
    assert damaged != whole
    assert said in faults(document, damaged, there)


def test_an_item_that_is_new_in_the_list_is_missed_on_the_page(there: World) -> None:
    document = next(item for item in LISTED if item.page == "roce.md")
    more = document._replace(items=(*document.items, document.items[-1]._replace(id="121")))
    assert faults(more, page_of(document), there) == ["121: in the list, and no row on the page"]


def test_a_bar_of_the_document_is_no_end_of_a_cell() -> None:
    (row,) = rows("| line | document |\n|---|---|\n| 76b | `ibstat \\| grep State` | a | b | c | d |\n")
    assert (row.document, row.railwright, row.proven) == ("`ibstat | grep State`", "a", "d")
