"""From a verified checkpoint back to a run's state, whatever ranks and layout saved it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError

from training.checkpoint_manifest import Commit, Found
from training.checkpoints import whole_form
from training.checkpoints.index import INDEX, Index
from training.checkpoints.loading import load_into
from training.checkpoints.state import LOSSES, TrainingState, places_for, random_numbers_of
from training.exit_codes import BadData
from training.world import World


def restore(state: TrainingState, found: Found, world: World, spec_digest: str) -> None:
    """Put a checkpoint's content into the state; every rank calls it.

    Random numbers are each rank's own, and are put back where there are as many ranks as there were.

    Raises:
        BadData: it is another run's, or does not hold what this run needs.
    """
    content = found.commit
    if content.spec_digest != spec_digest:
        raise BadData(
            f"checkpoint {found.folder}: it is of run spec {content.spec_digest[:12]}, this run's is "
            f"{spec_digest[:12]}. Submit a new run; it starts from scratch."
        )
    rank = world.rank if content.world_size == world.world_size else None
    try:
        index = _read_index(found.folder, content)
        places = places_for(state, index, rank)
        load_into(places, found.folder, index)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise BadData(
            f"checkpoint {found.folder}: its files are as they were committed, but can't be loaded: {error}. Load it "
            "with the trainer that wrote it, or remove it to go on from the one before."
        ) from error
    state.losses[:] = places[LOSSES].tolist()
    state.reader.restore(content.reader_state)
    if rank is not None:
        torch.set_rng_state(places[random_numbers_of(rank)])


def _read_index(folder: Path, commit: Commit) -> Index:
    if commit.layout == whole_form.LAYOUT:
        return whole_form.read_index(folder, commit)
    return Index.from_json(json.loads((folder / f"attempt-{commit.attempt}-{INDEX}").read_bytes()))
