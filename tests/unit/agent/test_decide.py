# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is drained by what agents say: the sick ones, never more than the breaker allows, and nobody for what is a switch's fault."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.agent.decide import Limits, Node, decide

LIMITS = Limits(4, 0.05, 2)
NAMES = [f"gpu{number:03d}" for number in range(100)]
LEAVES = {f"leaf{number}": set(NAMES[number * 32 : number * 32 + 32]) for number in range(3)}


def said(word: str = "ok", *, age: float = 10.0, downs: tuple[float, ...] = ()) -> dict[str, Any]:
    check = {"shared": "port.flaps", "refuse": "gpu.xid"}.get(word)
    row = {"check": check, "subject": "GPU", "text": word, "status": "fail", "known": None, "mode": "enforce", "fresh": False,
           "ago": 7200.0}  # fmt: skip
    return {"mode": "drain", "word": word, "age": age, "reason": "" if word == "ok" else f"{check} GPU: {word}",
            "findings": [row] if check else [], "held": [], "model": "NVIDIA H200", "observed": "", "versions": [],
            "downs": [{"part": "p", "name": "mlx5_0", "ago": ago} for ago in downs]}  # fmt: skip


def fleet(sick: dict[str, Node] | None = None) -> list[Node]:
    return [(sick or {}).get(name) or Node(name, "drain", said()) for name in NAMES]


def sick(name: str, word: str = "refuse", **more: Any) -> dict[str, Node]:
    return {name: Node(name, more.pop("mode", "drain"), said(word, **more))}


def drained(name: str, reason: str = "railwright watch: gpu.xid", word: str = "ok") -> dict[str, Node]:
    return {name: Node(name, "drain", said(word), {"closed": True, "reason": reason})}


def test_a_sick_node_is_drained_with_its_reason() -> None:
    found = decide(fleet(sick("gpu001")), LEAVES, LIMITS)
    assert found.drain == {"gpu001": "railwright watch: gpu.xid GPU: refuse"}
    assert not found.tripped


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_without_the_mode_it_is_only_told(mode: str) -> None:
    found = decide(fleet(sick("gpu001", mode=mode)), LEAVES, LIMITS)
    assert (found.drain, list(found.observed)) == ({}, ["gpu001"])


def test_a_silent_agent_drains_nobody() -> None:
    nodes = fleet({"gpu001": Node("gpu001", "drain", None), **sick("gpu002", age=301.0)})
    found = decide(nodes, LEAVES, LIMITS)
    assert (found.drain, found.silent) == ({}, ["gpu002"])


def test_a_leaf_that_restarts_is_one_finding_and_drains_nobody() -> None:
    """Three flaps of each of its 32 nodes: every one of them says link."""
    ago = {name: 20.0 + number for number, name in enumerate(sorted(LEAVES["leaf1"]))}
    nodes = fleet({name: Node(name, "drain", said("shared", downs=(seconds,))) for name, seconds in ago.items()})
    found = decide(nodes, LEAVES, LIMITS)
    assert (found.drain, found.tripped, list(found.leaves)) == ({}, "", ["leaf1"])
    assert "links of 32 nodes went down at once" in found.leaves["leaf1"]


def test_a_link_of_one_node_is_the_nodes() -> None:
    assert list(decide(fleet(sick("gpu001", "shared", downs=(20.0,))), LEAVES, LIMITS).drain) == ["gpu001"]


def test_a_gpu_on_a_leaf_that_restarts_is_the_nodes() -> None:
    nodes = {name: Node(name, "drain", said("shared", downs=(20.0,))) for name in LEAVES["leaf1"]}
    nodes |= sick("gpu040", "refuse", downs=(20.0,))
    assert list(decide(fleet(nodes), LEAVES, LIMITS).drain) == ["gpu040"]


def test_links_that_went_at_other_times_are_no_leaf() -> None:
    ago = {name: 151.0 * number for number, name in enumerate(sorted(LEAVES["leaf1"]))}
    nodes = fleet({name: Node(name, "observe", said("shared", downs=(seconds,))) for name, seconds in ago.items()})
    found = decide(nodes, LEAVES, LIMITS)
    assert (len(found.observed), found.leaves) == (32, {})


@pytest.mark.parametrize(("count", "limits", "key"), [
    (5, Limits(4, 0.5, 9), "rdma_drain_most allows 4"), (6, Limits(100, 0.05, 9), "rdma_drain_share allows 5"),
    (3, Limits(100, 1.0, 2), "rdma_drain_leaf_most allows 2"),
])  # fmt: skip
def test_the_breaker_drains_nobody_beyond_a_limit(count: int, limits: Limits, key: str) -> None:
    nodes = {name: node for name in NAMES[:count] for name, node in sick(name).items()}
    found = decide(fleet(nodes), LEAVES, limits)
    assert found.drain == {}
    assert key in found.tripped


def test_who_is_drained_already_counts() -> None:
    nodes = drained("gpu001", word="refuse") | drained("gpu033", word="refuse") | drained("gpu065", word="refuse") | drained("gpu066")
    found = decide(fleet(nodes | sick("gpu090")), LEAVES, LIMITS)
    assert (found.drain, "5 nodes" in found.tripped) == ({}, True)
    assert found.cured == ["gpu066"]


def test_an_open_breaker_stays_open_until_it_is_reset() -> None:
    nodes = fleet(sick("gpu001"))
    assert decide(nodes, LEAVES, LIMITS, "5 nodes would be drained").drain == {}
    assert list(decide(nodes, LEAVES, LIMITS).drain) == ["gpu001"]


def test_one_node_always_may() -> None:
    small = [Node("a", "drain", said("refuse")), Node("b", "drain", said())]
    assert list(decide(small, {}, Limits(4, 0.05, 2)).drain) == ["a"]


def test_only_our_own_drains_are_given_back() -> None:
    nodes = drained("gpu001") | drained("gpu002", "operator: RMA") | drained("gpu003", "railwright isolate R: rail2") | drained(
        "gpu004", word="refuse")
    assert decide(fleet(nodes), LEAVES, LIMITS).cured == ["gpu001"]


def test_out_of_service_is_drained_and_never_given_back() -> None:
    wish = {"reason": "GPU 3 returned", "ticket": "RMA-1"}
    nodes = {"gpu001": Node("gpu001", "off", None, None, wish),
             "gpu002": drained("gpu002")["gpu002"]._replace(out_of_service=wish)}  # fmt: skip
    found = decide(fleet(nodes), LEAVES, LIMITS, "open")
    assert found.drain == {"gpu001": "railwright watch: out of service: GPU 3 returned, ticket RMA-1"}
    assert found.cured == []


def test_the_newest_flap_of_one_node_ends_no_excuse_of_the_others() -> None:
    nodes = {name: Node(name, "drain", said("shared", downs=(7200.0 + number,))) for number, name in enumerate(sorted(LEAVES["leaf1"])[:3])}
    nodes["gpu032"] = Node("gpu032", "drain", said("shared", downs=(7200.0, 30.0)))
    assert list(decide(fleet(nodes), LEAVES, LIMITS).leaves) == ["leaf1"]


def test_without_the_schedulers_answer_nothing_is_decided() -> None:
    nodes = [Node(name, "drain", said("refuse"), None, {}, True) for name in NAMES[:10]]
    found = decide([*nodes, *fleet()[10:]], LEAVES, LIMITS)
    assert (found.drain, found.tripped, found.unasked) == ({}, "", NAMES[:10])


def test_what_is_drained_and_still_sick_is_said() -> None:
    found = decide(fleet(drained("gpu001", word="refuse")), LEAVES, LIMITS)
    assert (found.drain, found.held, found.cured) == ({}, ["gpu001"], [])


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.integers(0, 10), st.floats(0, 1), st.integers(0, 5))
def test_never_more_than_the_limits_whatever_is_sick(bad: set[str], before: set[str], most: int, share: float, leaf_most: int) -> None:
    nodes = {name: node for name in before for node in drained(name, word="refuse").values()}
    nodes |= {name: node for name in bad - before for node in sick(name).values()}
    found = decide(fleet(nodes), LEAVES, Limits(most, share, leaf_most))
    if found.drain:
        assert len(before | found.drain.keys()) <= min(most, max(1, int(share * len(NAMES))))
        assert all(len((before | found.drain.keys()) & members) <= leaf_most for members in LEAVES.values() if members & found.drain.keys())
    else:
        assert not bad - before or found.tripped
