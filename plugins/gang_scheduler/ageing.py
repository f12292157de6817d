"""Who has waited so long that it goes first: of those, one at a time, so that the order still holds for all others.

Where every one that has waited too long went first, an overloaded pool would soon be first come, first served. So of
each gang queue, pool and priority only the one that was asked first goes before the others, and keeps what it is given;
when it is over it is the next one's turn. Everybody's turn comes.
"""

from __future__ import annotations

from heapq import heappop, heappush

from gang_scheduler.entry import Entry

Group = tuple[str, str, int]  # gang queue, pool, priority


class Ageing:
    """Those that have waited too long, whether they wait or run now; the first of each group is marked as aged."""

    def __init__(self) -> None:
        """Nobody has."""
        self._of_group: dict[Group, list[tuple[float, str, int]]] = {}
        self._entries: dict[tuple[str, int], Entry] = {}
        self._first: dict[Group, Entry] = {}

    def add(self, entry: Entry) -> list[Entry]:
        """The gang has waited too long; returns those whose mark has changed by that."""
        key = entry.gang_key
        if key in self._entries:
            return []
        self._entries[key] = entry
        heappush(self._of_group.setdefault(_group_of(entry), []), (entry.submitted_s, *key))
        return self._mark(_group_of(entry))

    def drop(self, entry: Entry) -> list[Entry]:
        """The gang is over; returns those whose mark has changed by that."""
        if self._entries.pop(entry.gang_key, None) is None:
            return []
        return self._mark(_group_of(entry))

    def _mark(self, group: Group) -> list[Entry]:
        line = self._of_group[group]
        while line and line[0][1:] not in self._entries:
            heappop(line)
        first = self._entries[line[0][1:]] if line else None
        before = self._first.get(group)
        if first is before:
            return []
        changed = [entry for entry in (before, first) if entry is not None]
        if before is not None:
            before.is_aged = False
            del self._first[group]
        if first is not None:
            first.is_aged = True
            self._first[group] = first
        return changed


def _group_of(entry: Entry) -> Group:
    return entry.queue, entry.request.gang_pool, entry.request.gang_priority
