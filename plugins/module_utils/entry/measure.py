# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the rdma_measure module: one request of the action plugin, carried out and judged."""

from typing import Any, Callable, Dict

from ..errors import RailwrightError
from ..host.host import Host
from ..measure import gdr, perftest_node
from ..measure.counter_verdicts import watched
from ..measure.gdr_pairs import Pair
from ..measure.part_health import inspect_health
from ..measure.perftest import Limit, Measurement, Options
from ..measure.ping import ping_probes
from ..types import as_dicts

Request = Dict[str, Any]


def start(host: Host, request: Request) -> Dict[str, Any]:
    tests = tests_of(request) if request["serve"] else []
    verdicts, ports = perftest_node.start(host, request["node"], request["peer"], tests, watched(request["ports"]), options_of(request))
    return {"verdicts": as_dicts(verdicts), "open_ports": ports}


def run_measurement(host: Host, request: Request) -> Dict[str, Any]:
    verdicts = perftest_node.run_clients(
        host, request["node"], request["peer"], tests_of(request), request["open_ports"], options_of(request),
        [Limit(**limit) for limit in request["limits"]])
    return {"verdicts": as_dicts(verdicts)}


def sample(host: Host, request: Request) -> Dict[str, Any]:
    return {"samples": perftest_node.sample_clients(
        host, request["peer"], tests_of(request), request["open_ports"], options_of(request))}


def stop(host: Host, request: Request) -> Dict[str, Any]:
    verdicts, ended, traffic = perftest_node.stop(
        host, request["node"], request["peer"], watched(request["ports"]), request["lossless"], request["why_not"])
    return {"verdicts": as_dicts(verdicts), "ended": ended, "traffic": traffic}


def gpudirect(host: Host, request: Request) -> Dict[str, Any]:
    verdicts = gdr.measure(host, request["node"], request["path"], [Pair(**pair) for pair in request["pairs"]], options_of(request),
                           request["port"], [Limit(**limit) for limit in request["limits"]])
    return {"verdicts": as_dicts(verdicts)}


def tests_of(request: Request) -> Any:
    return [Measurement(**test) for test in request["tests"]]


def options_of(request: Request) -> Options:
    return Options(**{name: int(value) for name, value in request["options"].items()})


MODES: Dict[str, Callable[[Host, Request], Dict[str, Any]]] = {
    "ping": lambda host, request: ping_probes(host, request["probes"], request["rails"], request["count"], request["wait"]),
    "start": start, "run": run_measurement, "sample": sample, "stop": stop, "gpudirect": gpudirect,
    "health": lambda host, request: {"health": inspect_health(host, request["diag"])},
}


def answer(host: Host, params: Request, _dry: bool) -> Dict[str, Any]:
    try:
        return MODES[params["mode"]](host, params)
    except (RailwrightError, OSError) as error:
        raise RailwrightError("%s: %s" % (params["mode"], error)) from error
