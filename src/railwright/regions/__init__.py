# SPDX-License-Identifier: GPL-3.0-or-later
"""Regions: nodes that a worker host of their own reaches. Ansible runs there; its events come back as if it had run here.

ansible-runner's own streams (transmit, worker, process) go over one ssh connection a region: region_worker.py is its other end. A worker
gets the inventory of its own nodes and no other's, in memory. What it says is believed of its own nodes alone.
"""

import io
import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_runner.streaming import Transmitter

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils import saved_plan, scanned
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import WHOLE_CLUSTER, joined
from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import ASKED
from railwright import __version__
from railwright.events import Collector
from railwright.exitcodes import InputError
from railwright.given import given
from railwright.inventory import GROUP, Inventory, load_inventory
from railwright.region_worker import JOB, Job
from railwright.regions.answer import Region, Running
from railwright.regions.inventory import exported, yaml_text
from railwright.run import ALONE, BEFORE, Stop, part_of
from railwright.scan.login import ByAnsible, ssh_words
from railwright.scan.nodes import inventory_addresses

__all__ = ["Region", "Regions", "Running"]

# What Ansible's own options of the command line say; a path would be another machine's.
OPTIONS = ("ANSIBLE_REMOTE_USER", "ANSIBLE_FORKS", "ANSIBLE_VERBOSITY")
PASSWORD = re.compile(r"ansible_([a-z0-9]+_)*(pass|password|passphrase|private_key)")
# No question, no forwarding, no connection that outlives this one; to ssh the first word on a matter counts.
PLAIN = ("-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ClearAllForwardings=yes")


def regions_of(specs: Mapping[str, Spec], nodes: Iterable[str]) -> dict[str, Region]:
    """Of these nodes; one that is in none is in no region of the result."""
    found: dict[str, Region] = {}
    for node in nodes:
        spec = specs[node]
        if spec["region"] is not None:
            others = found[spec["region"]].nodes if spec["region"] in found else ()
            way = (str(spec["region_worker"]), spec["region_python"], float(spec["region_patience"]))
            found[spec["region"]] = Region(spec["region"], *way, (*others, node))
    return found


class Regions:
    """Of a judged inventory. ``specs``: of every node that may be asked."""

    def __init__(self, inventory: Inventory, specs: Mapping[str, Spec]) -> None:
        self.inventory, self._specs = inventory, specs
        managed = self.inventory.groups[GROUP]
        whole = inventory if all(name in inventory.hosts for name in managed) else load_inventory(inventory.path)
        regions = ((whole.hosts[name].get("rdma_region"), name) for name in managed)
        self._members = grouped((str(region), name) for region, name in regions if region is not None)  # of each, whatever the limit

    @cached_property
    def _cluster(self) -> dict[str, Any]:
        """The same for every region."""
        return joined(inventory_addresses(self.inventory))

    def of(self, nodes: Iterable[str], part: str = "") -> list[Region]:
        """The regions whose workers carry out a part of a run on these nodes."""
        return [region for region in regions_of(self._specs, nodes).values() if part not in ALONE or not self.asked_here(region)]

    def _schedulers(self, region: Region) -> set[str]:
        specs = [self._specs[name] for name in region.nodes]
        return {str(spec["upgrade_scheduler_host"]) for spec in specs if spec["upgrade_scheduler"] != "none"}

    def asked_here(self, region: Region) -> bool:
        """Whether the controller asks their scheduler: not one that the worker has to ask, and none that is a node of theirs."""
        asks = self._specs[region.nodes[0]]["region_asks_scheduler"]
        return bool(not asks and self._schedulers(region) - {*self._members.get(region.name, ()), *region.nodes})

    @contextmanager
    def running(
        self, chosen: Sequence[Region], playbook: str, variables: Mapping[str, Any], passwords: Mapping[str, str],
        collector: Callable[[str], Collector], stop: Stop,
    ) -> Iterator[list[Running]]:  # fmt: skip
        """All of these regions at once; after the block each has ended, early where the operator stops it or the block fails."""
        jobs = [Running(region, self.command(region), self.job(region, playbook, variables, passwords), collector(region.name), stop)
                for region in chosen]  # fmt: skip
        for one in jobs:
            one.thread.start()
        try:
            yield jobs
        except BaseException:
            stop.asked = True
            raise
        finally:
            for one in jobs:
                while one.thread.is_alive():
                    one.thread.join(0.2)
                    stop.now()

    def job(self, region: Region, playbook: str, variables: Mapping[str, Any], passwords: Mapping[str, str]) -> bytes:
        """What the worker reads: the first line, and the transmit stream."""
        part = part_of(playbook, variables)
        asked = self._schedulers(region) if (part in ALONE or part in BEFORE) and not self.asked_here(region) else set()
        reached = asked if part in ALONE else {*region.nodes, *asked}
        typed = part not in ALONE  # -k and -K are for nodes
        files = {"inventory.yml": yaml_text(self._inventory(region, reached)), "nodes": "\n".join(region.nodes) + "\n"}
        raw = self.inventory.raw[region.nodes[0]]
        own = exported({name: raw[name] for name in self.inventory.options if name in raw}) | dict(variables)  # -e lies over roles, too
        own.pop(scanned.VARIABLE, None)  # no scan of ours has reached these nodes
        if any(self._specs[name]["firewall_manage"] for name in region.nodes):
            own[WHOLE_CLUSTER] = self._cluster  # whom a firewall of ours lets in: not only the region
        if ASKED in own:
            own[ASKED] = {name: drain for name, drain in own[ASKED].items() if name in region.nodes}
        if saved_plan.VARIABLE in own:
            files |= {f"saved/{name}": text for name, text in scanned.kept_texts(Path(own[saved_plan.VARIABLE]), region.nodes)}
            own[saved_plan.VARIABLE] = str(JOB / "saved")
        stream = io.BytesIO()
        Transmitter(
            stream, private_data_dir=str(JOB), only_transmit_kwargs=True, project_dir=str(JOB), playbook=playbook,
            inventory=[str(JOB / "inventory.yml")], limit=f"@{JOB}/nodes", extravars=own,
            passwords=dict(passwords) if typed else {},
            envvars={name: os.environ[name] for name in OPTIONS if name in os.environ} | {
                "ANSIBLE_ASK_PASS": str(typed and given.password is not None),
                "ANSIBLE_BECOME_ASK_PASS": str(typed and given.become_password is not None)},
            settings={"suppress_output_file": True, "pexpect_timeout": 0.5}, fact_cache_type="",
        ).run()  # fmt: skip
        head = Job(__version__, region.patience, len(stream.getvalue()), files)
        return json.dumps(head._asdict()).encode("ascii") + b"\n" + stream.getvalue()

    def _inventory(self, region: Region, reached: Collection[str]) -> dict[str, Any]:
        """All nodes of the region, whatever the limit: plays look at their peers; passwords of those that are ``reached``. And how the
        host of their scheduler is reached, if this run asks it."""
        names = dict.fromkeys((*self._members.get(region.name, ()), *region.nodes))
        hosts = {name: exported({key: value for key, value in self.inventory.raw[name].items()
                                 if name in reached or PASSWORD.fullmatch(key) is None}) for name in names}  # fmt: skip
        groups: dict[str, Any] = {name: {"hosts": {host: {} for host in members if host in hosts}}
                                  for name, members in self.inventory.groups.items() if name not in ("all", "ungrouped")}  # fmt: skip
        for name in (set(reached) - hosts.keys()) & set(self.inventory.groups["all"]):
            hosts[name] = {key: value for key, value in exported(self.inventory.raw[name]).items() if key.startswith("ansible_")}
        # What a play does on the controller it does on the worker: below the job's own directory.
        hosts["localhost"] = {"ansible_connection": "local", "ansible_remote_tmp": str(JOB / "local"),
                              "ansible_python_interpreter": "{{ ansible_playbook_python }}"}  # fmt: skip
        return {"all": {"hosts": hosts, "children": {name: group for name, group in groups.items() if group["hosts"]}}}

    def command(self, region: Region) -> list[str]:
        """Raises InputError where ssh alone does not reach the worker."""
        try:
            words, host = ssh_words(self.inventory.connection[region.worker])
        except (ByAnsible, KeyError) as error:
            why = str(error) if isinstance(error, ByAnsible) else "is no host of the inventory"
            raise InputError(f"worker {region.worker} of region {region.name}: {why}; allowed: a host that ssh reaches by a key") from error
        remote = shlex.join((region.python, "-m", "railwright.region_worker"))
        return ["ssh", *PLAIN, *words, "--", host or region.worker, remote]
