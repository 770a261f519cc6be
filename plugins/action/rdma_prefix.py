# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_prefix: one task brings and installs a release, step by step; nccl-tests has tasks over all nodes."""

from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import shortened
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import refusal
from ansible_collections.railwright.rdma.plugins.plugin_utils.controller_files import EXPLICIT, INSTALLER, WHEELS, bill_of, wrong_archive
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests_build import Delivery, Node
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction

MODULE = "railwright.rdma.rdma_prefix"
ENVIRONMENT = "ai_environment"
ROLES = {"nccl": "nccl", "hpcx": "mpi", "erdma_driver": "erdma", ENVIRONMENT: ENVIRONMENT}  # what a failure's line begins with
ARCHIVES = {"nccl": "nccl_archive", "hpcx": "mpi_archive"}  # the inventory's keys of the operator's own archives
Result = dict[str, Any]


class Task(NamedTuple):
    """One product on one node."""

    product: str
    spec: Spec
    bill: dict[str, Any] | None  # of the Python environment
    variables: dict[str, Any]

    @property
    def archive(self) -> str | None:
        key = ARCHIVES.get(self.product)
        return self.spec[key] if key is not None else None


class ActionModule(StepAction):
    """Every path on the controller is the inventory's, and every path on a node of a form that the gate knows."""

    argument_spec = PREFIX

    def answer(self, result: Result, variables: dict[str, Any], options: dict[str, Any]) -> Result:
        product, mode = str(options["product"]), str(options["mode"])
        if (mode == "apply" and product == "nccl_tests") or (mode not in ("inspect", "apply") and product != "nccl_tests"):
            raise AnsibleActionFail(f"mode {mode} is none of product {product}")
        spec = host_spec(self._templar, variables)
        if product == "nccl_tests":
            node = Node(lambda step, given: self.send(product, step, given, variables),
                        lambda name, arguments: self.run_builtin(name, arguments, variables), self._connection, bool(self._task.check_mode))
            return result | Delivery(node, spec, variables).answer(mode)
        try:
            bill = bill_of(spec) if product == ENVIRONMENT else None
        except RailwrightError as error:  # no exception: ansible-core would add its cause, which is the same line again
            return result | {"failed": True, "changed": False, "msg": f"{ENVIRONMENT}: {error}; no node was changed"}
        task = Task(product, spec, bill, variables)
        return result | {"product": product} | self._made(task, wanted=mode == "apply")

    def _made(self, task: Task, *, wanted: bool) -> Result:
        """What the node says of the release; ``wanted``: and what came of making it."""
        seen = self.run_step(task, "inspect")
        release = seen.get("release")
        if seen.get("failed") or release is None:
            return seen
        if release["missing"] and task.archive is not None:
            wrong = wrong_archive(ARCHIVES[task.product], task.archive, str(release["artifact"]), str(release["sha256"]))
            if wrong is not None:
                return {**seen, "failed": True, "changed": False, "msg": f"{ROLES[task.product]}: {wrong}"}
        if not wanted or not release["needed"] or self._task.check_mode:
            return {**seen, "changed": wanted and release["needed"]}
        if release["missing"]:
            failed = self._bring(task, release)
            if failed is not None:
                self.run_step(task, "clean")
                return {**seen, **failed}
        done = self.run_step(task, "install", background=release["missing"])
        return {**seen, **done, "plan": seen["plan"], "notes": [*dict.fromkeys([*seen.get("notes", []), *done.get("notes", [])])]}

    def run_step(self, task: Task, step: str, *, background: bool = False) -> Result:
        given = {"spec": task.spec.as_dict(), "bill": task.bill}
        return self.send(task.product, step, given, task.variables, background=background)

    def send(self, product: str, step: str, given: dict[str, Any], variables: dict[str, Any], *, background: bool = False) -> Result:
        """One step on the node, and its answer."""
        arguments = {"product": product, "mode": str(self._task.args["mode"]), "step": step, **given}
        if background:
            return self.run_in_background(MODULE, arguments, variables)
        return self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)

    def _bring(self, task: Task, release: dict[str, Any]) -> Result | None:
        """The files that the release is made of, on the node; a failure, or None."""
        strange = [name for name in release.get("wheels", []) if name not in (task.bill or {})["wheels"]]
        if strange:
            return refusal(MODULE, f"release.wheels has {shortened(ascii(strange[0]))}; allowed: wheels of {task.spec[WHEELS]}")
        done = self.run_step(task, "prepare")
        if done.get("failed"):
            return done
        for name, arguments in transfers(task, release):
            done = self.run_builtin(name, arguments, task.variables)
            if done.get("failed"):
                return {**done, "msg": f"{ROLES[task.product]}: cannot bring {arguments['dest']}: {done.get('msg')}"}
        return None


def transfers(task: Task, release: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Ansible's module and its arguments for every file: of the controller, which only the inventory names, or downloaded there."""
    copy, spec = "ansible.builtin.copy", task.spec
    if task.product == ENVIRONMENT:
        pairs = [(f"{spec[WHEELS]}/{name}", f"wheels/{name}") for name in release["wheels"]]
        if spec["ai_environment_kind"] == "conda":
            pairs += [(spec[INSTALLER], "installer.sh"), (spec[EXPLICIT], "explicit.txt")]
        files = f"{spec['ai_environment_path'].rstrip('/')}/.{release['name']}.files"
        return [(copy, {"src": source, "dest": f"{files}/{name}", "mode": "0600"}) for source, name in pairs]
    target = {"dest": release["file"], "mode": "0644"}
    if task.archive is not None:
        return [(copy, {**target, "src": task.archive})]
    return [("ansible.builtin.get_url", {**target, "url": release["url"], "checksum": f"sha256:{release['sha256']}"})]
