"""The rules of the core, each in its own words in the source, and what the source says without it."""
# ruff: noqa: E501 - a table is read line by line

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule's own words in the source, the words without it, and the tests that miss it."""

    name: str
    module: str
    text: str
    without: str
    missed_by: str


# fmt: off
RULES = [
    # whose turn it is
    Rule("priority goes first", "entry", "-self.request.gang_priority,", "0,", "test_order"),
    Rule("who has waited long goes first", "entry", "not self.is_aged,\n", "True,\n", "test_order"),
    Rule("one at a time goes first", "ageing", "before.is_aged = False", "pass", "test_ageing"),
    Rule("harvesters of CPUs go last", "entry", "            self.request.harvests,\n", "", "test_shares_and_mig"),
    Rule("kept board: who changed is taken in anew", "kept_board", "(before is None or _SHOWN(before) != _SHOWN(after))", "before is None", "test_kept_board"),
    Rule("kept board: another cluster is another board", "kept_board", "and snapshot.nodes == first.nodes", "", "test_kept_board"),
    Rule("kept board: time goes on for who starts", "kept_board", "entry.go_on(after[key], board.now_s)", "pass", "test_kept_board"),
    Rule("kept board: limits of queues are renewed", "kept_board", "board.quotas.renew(snapshot.queues)", "pass", "test_kept_board"),
    Rule("quiet until the next moment", "plan", "span is not None and span[0] <= now < span[1]", "span is not None", "test_plan"),
    Rule("no quiet on nodes to be left", "plan", "if left or not _is_quiet", "if not _is_quiet", "test_plan"),
    Rule("due: longer ones are due later", "entry", "policy.stretch * self.remaining_s", "0 * self.remaining_s", "test_order"),
    Rule("sjf: the shortest first", "entry", "if self.expected_s is None else self.expected_s\n", "if True else 0.0\n", "test_order"),
    Rule("srsf: weighed by size", "entry", "self.remaining_s(now_s, policy) * self.size", "self.remaining_s(now_s, policy)", "test_order"),
    Rule("las: what it got counts", "entry", "service_class(self.attained_s + self.ran_s(now_s)", "service_class(0.0", "test_order"),
    Rule("fair: the least share first", "line", "book.share(self._name) if self._is_fair else 0.0", "0.0", "test_fair_share"),
    Rule("own quota before borrowing", "line", "book.borrows(self._name, pool, entry.request.least_amounts)", "False", "test_fair_share"),
    Rule("shares are weighted", "quota_book", "/ view.weight if view.weight > 0", "/ 1.0 if view.weight > 0", "test_fair_share"),
    Rule("history counts", "quota_book", "dominant + view.usage / self._history_per_share", "dominant", "test_fair_share"),
    # what a queue may hold
    Rule("quotas hold", "decide", "short = self.quotas.short(entry.queue, name, amounts)", "short = None", "test_quotas"),
    Rule("borrowing is limited", "quota_book", "if used + amount > limit + TINY:", "if False:", "test_quotas"),
    Rule("a cohort lends what it has", "quota_book", "if draws > pot - drawn + TINY:", "if False:", "test_quotas"),
    Rule("lending is limited", "quota_book", "quota.nominal if quota.lend is None else min(quota.lend, quota.nominal)", "quota.nominal", "test_quotas"),
    Rule("gangs are capped", "quota_book", "if view.max_gangs and gangs >= view.max_gangs:", "if False:", "test_quotas"),
    Rule("GPUs are capped", "quota_book", "        if view.max_gpus:\n", "        if False:\n", "test_quotas"),
    Rule("windows hold", "decide", "closed = self._closed_window(entry)", "closed = None", "test_windows"),
    Rule("harvesters leave at the end of the window", "decide", "        self._close_windows()\n", "", "test_windows"),
    Rule("the first of a queue keeps its place in the quota", "decide", "if head is not None and not head.allows(entry, name, amounts, end_s):", "if False:", "test_quotas"),
    # what a pool has
    Rule("storage is limited", "decide", "if lacking := lacks_storage(entry, pool.capacity):", "if lacking := '':", "test_cost"),
    Rule("power is limited", "decide", "if lacking := lacks_power(fit.spots, pool.capacity):", "if lacking := '':", "test_cost"),
    Rule("CPUs are reserved for GPUs", "capacity", "cpus -= self.pool.cpu_reserve_per_gpu * self._gpus[number]", "cpus -= 0", "test_shares_and_mig"),
    Rule("MIG instances are counted", "capacity", "slots = min(slots, self._mig.get(number, {}).get(profile, 0) // count)", "pass", "test_shares_and_mig"),
    Rule("memory is counted", "capacity", "slots = min(slots, int((self._memory[number] + TINY) / each.memory_gib))", "pass", "test_placement"),
    Rule("a node that is not ready takes nobody", "node", "return self.state is NodeState.READY and not self.is_cordoned", "return True", "test_wishes"),
    Rule("a faulty node is left", "node", "return self.state in (NodeState.DRAINING, NodeState.FAULTY)", "return False", "test_wishes"),
    # where a gang goes
    Rule("the smallest subtree", "placement", "for step in range(widest + 1):", "for step in range(widest, widest + 1):", "test_placement"),
    Rule("a required level is kept", "placement", "if ask.is_required and ask.level in levels else", "if False else", "test_topology"),
    Rule("the subtree with the least left over", "placement", "return [min(fitting)[1]] if fitting else []", "return [max(fitting)[1]] if fitting else []", "test_placement"),
    Rule("the fullest node", "capacity", "for bucket in sorted(self._buckets):", "for bucket in sorted(self._buckets, reverse=True):", "test_placement"),
    Rule("ranks follow the fabric", "placement", "key=lambda spot: (spot[1], spot[0])", "key=lambda spot: (-spot[1], spot[0])", "test_placement"),
    Rule("regions", "eligible", "(not wishes.regions or node.region in wishes.regions)", "True", "test_wishes"),
    Rule("excluded nodes", "eligible", "and node.node not in wishes.excluded", "", "test_wishes"),
    Rule("apart", "eligible", "    if wishes.apart:\n", "    if False:\n", "test_wishes"),
    Rule("near", "eligible", "    if wishes.near:\n", "    if False:\n", "test_wishes"),
    Rule("GPU models in order", "eligible", "    for model in wishes.gpu_models:\n", "    for model in sorted(wishes.gpu_models, reverse=True)[:1]:\n", "test_wishes"),
    Rule("preferred labels", "eligible", "return [better, allowed] if better else [allowed]", "return [allowed]", "test_wishes"),
    Rule("the cheapest in time", "cost", "key=lambda found: found.cost)", "key=lambda found: found.finish_s)", "test_cost"),
    Rule("spot nodes are reclaimed", "cost", "if node.is_spot and capacity.pool.spot_mtbf is not None:", "if False:", "test_cost"),
    Rule("tariffs", "cost", "if tariff.window.holds(at)", "if False", "test_cost"),
    # who passes whom
    Rule("head of line", "decide", "elif blocking is Blocking.HEAD:", "elif False:", "test_backfill"),
    Rule("a reservation is not delayed", "reservation", "return end_s <= self.start_s or still_fits(entry, spots, self.capacity)", "return True", "test_backfill"),
    Rule("who ends in time may pass", "reservation", "return end_s <= self.start_s or still_fits(entry, spots, self.capacity)", "return still_fits(entry, spots, self.capacity)", "test_backfill"),
    Rule("an unknown duration might be any", "decide", 'return float("inf")\n', "return self.board.now_s\n", "test_backfill"),
    Rule("conservative: everybody has a reservation", "decide", "deepest = 1 if blocking is Blocking.EASY else self.policy.reservation_depth", "deepest = 1", "test_backfill"),
    Rule("who never fits blocks nobody", "working_pool", "return self._fitter.fit(entry, self.capacity.empty) is not None", "return True", "test_backfill"),
    Rule("held by a person", "admission", "    if view.is_held:\n", "    if False:\n", "test_waits"),
    # who stops for whom
    Rule("only lower priorities stop", "victims", "if holder.priority >= priority:", "if False:", "test_preemption"),
    Rule("some are not to be preempted", "victims", "if not entry.request.is_preemptible:", "if False:", "test_preemption"),
    Rule("the least work lost", "victims", "(holder.priority, holder.lost_s, holder.entry.key)", "(holder.priority, -holder.lost_s, holder.entry.key)", "test_preemption"),
    Rule("a checkpoint saves work", "entry", "if self.saved_s is None else", "if True else", "test_preemption"),
    Rule("nobody stops who is not needed", "preemption", "if entry.request.least.fits_in(free - part):", "if False:", "test_preemption"),
    Rule("who stops is awaited", "working_pool", "        for entry in board.holding.values():\n            if entry.stops:\n", "        for entry in board.holding.values():\n            if False:\n", "test_preemption"),
    Rule("room made for one is kept for it", "working_pool", "if fit is None or self.soon is None or still_fits(entry, fit.spots, self.soon):", "if True:", "test_preemption"),
    Rule("a start is given time", "entry", "return ran_s > 0 and ran_s >= policy.min_run", "return True or ran_s >= policy.min_run", "test_order"),
    Rule("hardly shorter is not shorter", "policy", "else rank * self.hysteresis", "else rank", "test_order"),
    Rule("quota is given back", "victims", "if not self._policy.reclaims_quota or not owns:", "if True:", "test_quotas"),
    Rule("harvesting queues give it back first", "victims", "(not queue.harvests_only, -book.share(queue.name))", "(queue.harvests_only,)", "test_windows"),
    Rule("harvesters of CPUs stop first", "victims", "if holder.priority <= priority:", "if False:", "test_shares_and_mig"),
    # elastic gangs
    Rule("elastic gangs start small", "fit", "is_fewest=entry.request.is_elastic", "is_fewest=False", "test_elastic"),
    Rule("elastic gangs grow", "decide", "        self._grow()\n", "", "test_elastic"),
    Rule("elastic gangs grow within their quota", "working_pool", "if is_within_quota(amount(entry, fit.spots)) and", "if", "test_elastic"),
    Rule("elastic gangs shrink", "preemption", "return Victim(entry, StopReason.SHRINKS, victim.parts)", "return victim", "test_elastic"),
]
# fmt: on
