# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of rdma_prefix: one step of one product. The products differ in what belongs on a node and how it is made (module_utils/prefix)."""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from ..errors import RailwrightError
from ..host.host import Host
from ..observe.identity import observe_identity
from ..prefix import products
from ..prefix.nccl_tests.install import run_step
from ..prefix.python_env.install import WITHOUT_GPU, Environment
from ..prefix.python_env.wanted import ControllerFiles
from ..prefix.python_env.wanted import wanted as wanted_environment
from ..spec.model import Spec
from ..types import Identity

LOCK = "/run/railwright-%s.lock"


class Product(NamedTuple):
    """What the inventory asks for, and what is said of a node that it asks for and that cannot have it."""

    role: str  # what a failure's line begins with
    wanted: Callable[[Host, Spec, Identity, Mapping[str, Any]], Any]  # with the methods of prefix.installer.Installer; None: nothing
    missed: Callable[[Spec], Optional[str]] = lambda _spec: None


def _environment(host: Host, spec: Spec, identity: Identity, given: Mapping[str, Any]) -> Optional[Environment]:
    bill = ControllerFiles(**given["bill"])
    wish = wanted_environment(host, spec, identity, bill)
    return Environment(host, wish, bill.wheels) if wish is not None else None


PRODUCTS = {
    "nccl": Product("nccl", lambda host, spec, identity, _given: products.wanted_nccl(host, spec, identity),
                    lambda spec: products.WITHOUT_GPU if spec["nccl_install"] in ("wheel", "source") else None),
    "hpcx": Product("mpi", lambda host, spec, identity, _given: products.wanted_hpcx(host, spec, identity)),
    "erdma_driver": Product("erdma", lambda host, spec, identity, _given: products.wanted_erdma_driver(host, spec, identity)),
    "ai_environment": Product("ai_environment", _environment,
                              lambda spec: WITHOUT_GPU if spec["ai_environment_kind"] != "none" else None),
}
NOTHING: Dict[str, Any] = {"release": None, "notes": [], "plan": [], "drivers": {}}


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    product = params["product"]
    try:
        return step(host, product, params["step"], params, dry=dry)
    except RailwrightError as error:
        why = str(error)
    except OSError as error:
        why = "%s: %s" % (error.filename, error.strerror)
    raise RailwrightError("%s: %s" % (PRODUCTS[product].role if product in PRODUCTS else product, why))


def step(host: Host, product: str, name: str, given: Mapping[str, Any], *, dry: bool) -> Dict[str, Any]:
    """The step's answer. Only one run at a time works on a product. Raises RailwrightError and OSError."""
    if name in ("inspect", "state", "verify") or dry:
        return _step(host, product, name, given, dry=dry)
    lock = host.lock(LOCK % product)
    if lock is None:
        raise RailwrightError("another run is at work on %s of this node (lock %s is held)" % (product, LOCK % product))
    try:
        return _step(host, product, name, given, dry=dry)
    finally:
        host.unlock(lock)


def _step(host: Host, product: str, name: str, given: Mapping[str, Any], *, dry: bool) -> Dict[str, Any]:
    if product not in PRODUCTS:
        return run_step(host, name, given, dry=dry)
    spec = Spec(given["spec"])
    found = PRODUCTS[product].wanted(host, spec, observe_identity(host, None), given)
    if found is None:
        missed = PRODUCTS[product].missed(spec)
        return dict(NOTHING, changed=False, notes=[missed] if missed is not None else [])
    if name == "inspect" or dry:
        return dict(NOTHING, changed=False, **found.inspect())
    if name == "prepare":
        found.prepare()
    elif name == "clean":
        found.clean()
    else:
        found.install()
        told = found.inspect()
        if told["release"]["needed"]:
            raise RailwrightError("%s was made, and is not found whole now" % told["release"]["directory"])
        return dict(NOTHING, changed=True, **told)
    return {"changed": name == "prepare"}
