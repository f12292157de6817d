"""The local-process backend around real processes; the agent is a stand-in where it doesn't matter."""

from __future__ import annotations

from gang_backends.backend import Liveness
from tests.gang_backends.local_host import Host, wait_for


def test_result_reaches_the_ledger_when_all_ranks_are_done(host: Host) -> None:
    order = host.order(steps=4)
    ref = host.launch(order)
    told = host.wait_end()
    assert told["end"]["agent_exit_code"] == 0
    assert [(rank["rank"], rank["exit_code"]) for rank in told["end"]["ranks"]] == [(0, 0), (1, 0)]
    assert told["result"] == {"steps": 4}
    wait_for(lambda: host.backend.state(ref, order.run_dir, order.key).liveness is Liveness.DEAD, "supervisor ends")
    state = host.backend.state(ref, order.run_dir, order.key)
    assert state.end is not None
    assert state.end.forced_cause is None
    assert state.result == {"steps": 4}
    assert host.launch(order) == ref, "an attempt that ran is never started again"
    assert len(host.ledger.calls("start")) == 1
