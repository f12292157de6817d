"""All state of a run, to disk and back: what is resumed equals, bit for bit, what would have gone on.

Tensors lie in safetensors files, which hold no code; a pickle from a shared folder would run whatever it says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from training.attempts import Claim
from training.checkpoint_manifest import Commit, Found, commit, describe_file, folder_of, prune
from training.collectives import from_first_rank, meet
from training.exit_codes import BadData, Superseded
from training.full_state import FullState, gather, put_back
from training.reader import Reader
from training.world import World

KEPT = 3  # newest committed checkpoints
_OF = "|"  # between a parameter's name and what the optimizer keeps of it


@dataclass(slots=True)
class TrainingState:
    """What changes while training. `losses` holds the global loss of every step so far; its length is the step.

    The learning rate is no state: it is a function of the step.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    reader: Reader
    losses: list[float] = field(default_factory=list)

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.losses)

    @property
    def last_loss(self) -> float | None:
        """The newest step's loss, if there was a step."""
        return self.losses[-1] if self.losses else None


def save(state: TrainingState, world: World, claim: Claim | None, attempt: int, spec_digest: str) -> str:
    """Commit a checkpoint of the state; every rank calls it. Returns when that was.

    A file's name holds the attempt, so that one which was superseded, and does not know yet, writes beside the newer
    one's files and not into them. `claim` is rank 0's, None on the others.

    Raises:
        Superseded: on every rank, if a newer attempt has claimed the run folder; nothing was committed.
    """
    folder = folder_of(world.run_dir, state.step)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"attempt-{attempt}-"
    save_file({"rng": torch.get_rng_state()}, folder / f"{prefix}rank-{world.rank}.safetensors")
    whole = gather(state.model, state.optimizer)
    if world.is_first:
        save_file(whole.weights, folder / f"{prefix}model.safetensors")
        _save_optimizer(whole, folder / f"{prefix}optimizer.safetensors")
        losses = torch.tensor(state.losses, dtype=torch.float64)
        save_file({"losses": losses}, folder / f"{prefix}losses.safetensors")
    meet()
    answer = None
    if claim is not None:
        answer = _commit(state, world, claim, folder, prefix, spec_digest)
    committed_at, superseded = from_first_rank(answer)
    if superseded:
        raise Superseded(superseded)
    return str(committed_at)


def _commit(
    state: TrainingState, world: World, claim: Claim, folder: Path, prefix: str, spec_digest: str
) -> tuple[str, str]:
    """When it was committed and "", or "" and why it was not."""
    ranks = [f"{prefix}rank-{rank}.safetensors" for rank in range(world.world_size)]
    names = [*(f"{prefix}{name}.safetensors" for name in ("model", "optimizer", "losses")), *ranks]
    content = Commit(
        step=state.step,
        samples=state.reader.position,
        world_size=world.world_size,
        layout="whole",  # rank 0 writes all of it, whatever the layout that trains it
        files=tuple(describe_file(folder, name) for name in names),
        reader_state=state.reader.state(),
        gang_id=world.gang_id,
        submission=world.submission,
        attempt=claim.attempt,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        spec_digest=spec_digest,
    )
    try:
        commit(claim, folder, content)
    except Superseded as error:
        return "", str(error)
    prune(world.run_dir, KEPT, state.step)
    return content.created_at, ""


def restore(state: TrainingState, found: Found, world: World, spec_digest: str) -> None:
    """Put a verified checkpoint's content into the state, and this rank's random numbers back.

    Raises:
        BadData: it is another run's.
    """
    content = found.commit
    if content.spec_digest != spec_digest:
        raise BadData(
            f"checkpoint {found.folder}: it is of run spec {content.spec_digest[:12]}, this run's is "
            f"{spec_digest[:12]}. Submit a new run; it starts from scratch."
        )
    prefix = f"attempt-{content.attempt}-"
    weights = _load(found.folder / f"{prefix}model.safetensors")
    put_back(_load_state(weights, found.folder / f"{prefix}optimizer.safetensors"), state.model, state.optimizer)
    state.losses[:] = _load(found.folder / f"{prefix}losses.safetensors")["losses"].tolist()
    state.reader.restore(content.reader_state)
    if content.world_size == world.world_size:  # else each rank goes on with the numbers that it was seeded with
        torch.set_rng_state(_load(found.folder / f"{prefix}rank-{world.rank}.safetensors")["rng"])


def _save_optimizer(whole: FullState, path: Path) -> None:
    tensors = {
        f"{name}{_OF}{kind}": torch.as_tensor(value).contiguous()
        for name, values in whole.optimizer.items()
        for kind, value in values.items()
    }
    save_file(tensors, path, metadata={"param_groups": json.dumps(whole.groups)})


def _load_state(weights: dict[str, Tensor], path: Path) -> FullState:
    optimizer: dict[str, dict[str, Tensor]] = {}
    with safe_open(path, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118 - not a mapping
            name, _, kind = key.partition(_OF)
            optimizer.setdefault(name, {})[kind] = file.get_tensor(key)
        groups = json.loads(file.metadata()["param_groups"])
    return FullState(weights, optimizer, groups)


def _load(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
