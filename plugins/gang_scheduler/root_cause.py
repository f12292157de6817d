"""Which of several ranks' ends is the first cause, and which only echo it."""

from __future__ import annotations

from collections.abc import Sequence

from gang_scheduler.signals import signal_of
from gang_scheduler.verdict import RankOutcome

_SIGTERM = 15
_OWN_CODES = (64, 65, 70)  # of the run contract: the program itself says what is wrong
_INTERRUPTED = 75

# What torch.distributed says when a peer is gone: by type, or by words inside a RuntimeError.
_ECHO_TYPES = ("DistBackendError", "DistNetworkError", "DistStoreError", "ConnectionResetError", "BrokenPipeError")
_ECHO_WORDS = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "connection refused",
    "timed out waiting",
    "socket timeout",
    "gloo",
    "nccl",
    "remote process has terminated",
    "signalexception",
)


def echoes_a_lost_peer(rank: RankOutcome) -> bool:
    """True if the rank's error says only that it could not reach another rank, or was torn down by its agent."""
    if rank.error_type.rsplit(".", 1)[-1] in (*_ECHO_TYPES, "SignalException"):
        return True
    message = rank.error_message.lower()
    return bool(rank.error_type) and any(word in message for word in _ECHO_WORDS)


def root_error(ranks: Sequence[RankOutcome]) -> RankOutcome | None:
    """The rank whose own error ended the attempt: the lowest of those that name one; None if there is none.

    A code of the run contract with a reason comes before a code of nobody's.
    """
    own = [rank for rank in ranks if _is_own_error(rank)]
    return min(own, key=lambda rank: (rank.exit_code not in _OWN_CODES, not rank.error_type, rank.rank), default=None)


def _is_own_error(rank: RankOutcome) -> bool:
    if rank.exit_code is None or rank.exit_code in (0, _INTERRUPTED) or signal_of(rank.exit_code) is not None:
        return False
    return not echoes_a_lost_peer(rank)


def killed_ranks(ranks: Sequence[RankOutcome]) -> list[RankOutcome]:
    """The ranks that were killed, the likeliest first cause first.

    A SIGTERM is the agent tearing down what a death elsewhere left behind, so it is named last; a known signal comes
    before a mere silence.
    """
    killed = [rank for rank in ranks if rank.exit_code is None or signal_of(rank.exit_code) is not None]

    def rank_of_suspicion(rank: RankOutcome) -> tuple[bool, bool, int]:
        number = signal_of(rank.exit_code)
        return (number == _SIGTERM, number is None, rank.rank)

    return sorted(killed, key=rank_of_suspicion)


def fatally_killed(ranks: Sequence[RankOutcome]) -> bool:
    """True if a rank ended by more than the SIGTERM with which an agent tears down."""
    return any(signal_of(rank.exit_code) != _SIGTERM for rank in killed_ranks(ranks))
