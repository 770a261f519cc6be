# SPDX-License-Identifier: GPL-3.0-or-later
"""Who pauses whom on drawn fabrics: however many leaves and hosts, an incast begins at its slow host and nowhere else."""

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import End
from railwright.switch_pauses import Counters, begins, circles, egress, joined, pauses

QUIET = Counters(0, 0, 0, 0, 0)


@given(st.data())
def test_any_incast_over_leaves_and_a_spine_names_its_slow_host(data: st.DataObject) -> None:
    """The slow host pauses its leaf, that the senders on it and the spine, and that the leaves of the others, and those their senders."""
    leaves, each = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 6))
    plan = {f"node{leaf}-{at}": {"rail0": End(f"leaf{leaf}", f"Ethernet{at}")} for leaf in range(leaves) for at in range(each)}
    links = [(End(f"leaf{leaf}", "Ethernet64"), End("spine1", f"Ethernet{leaf}")) for leaf in range(leaves)]
    slow = data.draw(st.sampled_from(sorted(plan)))
    senders = data.draw(st.sets(st.sampled_from(sorted(set(plan) - {slow})), min_size=1))
    frames = data.draw(st.integers(1, 1 << 40))
    told: dict[str, dict[str, Counters]] = {name: {} for name in [*(f"leaf{leaf}" for leaf in range(leaves)), "spine1"]}
    own, far = plan[slow]["rail0"].switch, {plan[node]["rail0"].switch for node in senders} - {plan[slow]["rail0"].switch}
    for node, ends in plan.items():
        row = QUIET._replace(pauses_in=frames * (node == slow), pauses_out=frames * (node in senders))
        told[ends["rail0"].switch][ends["rail0"].port] = row
    for leaf, up in links:
        away, home = frames * (leaf.switch in far), frames * (leaf.switch == own and bool(far))
        told[leaf.switch][leaf.port] = QUIET._replace(pauses_in=away, pauses_out=home)
        told["spine1"][up.port] = QUIET._replace(pauses_in=home, pauses_out=away)
    rails = {(node, "rail0"): QUIET._replace(pauses_in=frames * (node in senders), pauses_out=frames * (node == slow)) for node in plan}
    found = joined(told, plan, links, rails)
    assert begins(pauses(found), egress(found)) == [(slow, "host", [str(plan[slow]["rail0"])])]
    assert {pause.whom for pause in pauses(found)} == senders | far | {own} | ({"spine1"} if far else set())
    assert (circles(pauses(found)), [one for one in pauses(found) if one.odd]) == ([], [])
