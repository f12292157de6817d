"""The training loop: steps, agreement on stopping, checkpoints, the finished model."""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass

import torch
from torch.nn.parallel import DistributedDataParallel

from training import attempts, losses, optimizers
from training.attempts import Claim
from training.checkpoints.checkpointer import Checkpointer, Committed, SaveProgress
from training.checkpoints.finding import Finder
from training.checkpoints.peer_memory import PeerMemory
from training.checkpoints.remote import storage_of
from training.checkpoints.restoring import restore
from training.checkpoints.state import TrainingState
from training.code_version import code_version
from training.collectives import add_up, from_first_rank, join, meet, peers
from training.exit_codes import BadSpec, Interrupted, Superseded, TrainingEnd
from training.fault_injection import FaultInjection
from training.files import write_json
from training.full_state import whole_weights
from training.losses import LossPage
from training.parallel.laid_out import LaidOut, lay_out
from training.progress import Progress
from training.reader import Reader
from training.recipes.by_name import recipe_of
from training.recipes.recipe import Recipe
from training.sample_ledger import Opening, SampleLedger
from training.seeing.corruption_check import check
from training.seeing.hang_stacks import flight_recorder_environment
from training.seeing.watch import Watch
from training.spec_file import AnySpec
from training.stop_request import StopRequest
from training.world import World


class NonFiniteLoss(TrainingEnd):
    """The loss is no number any more; going on could only save the damage."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What all ranks know after a step: the global loss, and whether to go on."""

    loss: float
    is_stop_requested: bool
    is_superseded: bool
    is_check_asked: bool


class Run:
    """One attempt at a run, on one rank."""

    def __init__(self, world: World, spec: AnySpec, stop: StopRequest, fault: FaultInjection | None) -> None:
        self.world, self.spec, self.stop, self.fault = world, spec, stop, fault
        self.lineage = spec.lineage()
        self.claim: Claim | None = None
        self.progress: Progress | None = None
        self.page: LossPage | None = None
        self.attempt = 0
        self.checkpointer: Checkpointer
        self.memory: PeerMemory | None = None
        self.ledger: SampleLedger | None = None
        self.committed_step: int | None = None
        self.watch = Watch(world, self._say)

    def go(self) -> None:
        """Train to the end.

        Raises:
            TrainingEnd: any other end that has a meaning.
        """
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(mode=True)
        if self.world.world_size != self.spec.workers:
            raise BadSpec(
                f"run spec: workers = {self.spec.workers}, but torchrun started {self.world.world_size} ranks "
                "(WORLD_SIZE). Launch as many as the spec says."
            )
        if self.world.is_first:
            self.claim = attempts.claim(self.world.run_dir, self.world.launch)
        recipe = recipe_of(self.spec)
        self.watch = Watch(self.world, self._say, recipe.tokens_per_sample, recipe.flops_per_sample)
        if self.claim is not None:
            self.progress = Progress(self.world, self.claim, recipe.total_steps, watch=self.watch)
            self.progress.beat("starting", 0, 0, None)
            if self.spec.code_version != code_version():
                self._say(
                    f"warning: the run spec was made for training code {self.spec.code_version[:12]}; this is "
                    f"{code_version()[:12]}. The model's card names the latter."
                )
        os.environ.update(flight_recorder_environment(self.world.launch_dir))
        with self.watch:  # from here on, as joining has been seen to hang
            join(self.world)
            laid_out = lay_out(recipe.model, self.spec.layout, self.world)
            state = TrainingState(
                laid_out.module, recipe.build_optimizer(), self._reader(recipe.sample_count, laid_out)
            )
            # Each share of a batch drops its own units.
            torch.manual_seed(self.spec.seed * laid_out.data_size + laid_out.data_rank)
            if self.spec.peer_memory:
                self.memory = PeerMemory(self.world, self._say, self.watch.alive)
            with self.memory or nullcontext():
                self._resume(state, recipe)
                self._open_ledger(state, recipe, laid_out)
                self.checkpointer = Checkpointer(
                    self.world,
                    self.claim,
                    self.attempt,
                    self.lineage,
                    self.watch.alive,
                    self.memory,
                    storage_of(self.world.run_dir, self.spec.checkpoint_storage),
                )
                with self.checkpointer, self._open_page(state):
                    self._train(state, recipe, laid_out)
                self._finish(state, recipe)
                if self.memory is not None:
                    self.memory.end()
        meet()

    @property
    def step(self) -> int | None:
        """The last step that a checkpoint holds, for the outcome."""
        return self.committed_step

    def _reader(self, sample_count: int, laid_out: LaidOut) -> Reader:
        batch = self.spec.params.global_batch_size
        return Reader(sample_count, batch, self.spec.seed, laid_out.data_rank, laid_out.data_size)

    def _resume(self, state: TrainingState, recipe: Recipe) -> None:
        """Rank 0 finds the checkpoint; every rank restores its part of it."""
        address, say, alive = self.spec.checkpoint_storage, self._say, self.watch.alive
        located = Finder(self.world, address, self.memory, say, alive).find()
        self.attempt = from_first_rank(self.claim.attempt if self.claim else 0)
        if located is None:
            self._say(f"attempt {self.attempt}: starts from {recipe.starts_from}")
            return
        restore(state, located.found, self.world, self.lineage)
        located.forget()
        self._say(f"attempt {self.attempt}: resumed from step {state.step} of {located.whose}")
        if located.is_own:
            self._note_commit(Committed(state.step, located.found.commit.created_at))

    def _train(self, state: TrainingState, recipe: Recipe, laid_out: LaidOut) -> None:
        laid_out.trained.train()
        self._settle(laid_out, state, recipe)
        if self.progress is not None:
            self.progress.start_clock(state.reader.position)
        self.watch.clock.skip()
        if self._agreed(add_up(*self._said(0.0))).is_stop_requested:  # it came while the process was starting
            self._interrupt(state)
        while state.step < recipe.total_steps:
            agreed = self._agreed(self._make_step(laid_out, state, recipe))
            if not math.isfinite(agreed.loss):
                self._drain()
                raise NonFiniteLoss(
                    f"loss = {agreed.loss} at step {state.step + 1}; the newest checkpoint is of step "
                    f"{self.committed_step}. Try a lower params.learning_rate than {self.spec.params.learning_rate}."
                )
            state.losses.append(agreed.loss)
            self.watch.step_made(state.step)
            self._report(state)
            if self.fault is not None:
                if self.fault.is_at(state.step, self.attempt):
                    self._drain()  # so that a test knows which checkpoints there are
                self.fault.strike(self.world.rank, state.step, self.attempt, state.model)
            if agreed.is_superseded:
                raise Superseded(f"superseded at step {state.step}: a newer attempt has claimed {self.world.run_dir}")
            if agreed.is_stop_requested:
                self._interrupt(state)
            if agreed.is_check_asked:
                self._check_corruption(state, recipe)
            if state.step % self.spec.checkpoint_every_steps == 0 or state.step == recipe.total_steps:
                self._checkpoint(state)
        self._checkpoint(state)  # unless there is one: it resumed from another submission's last step
        self._drain()

    def _settle(self, laid_out: LaidOut, state: TrainingState, recipe: Recipe) -> None:
        """Make a backward pass that counts for nothing, by which DDP lays out its buckets before the next one.

        Gradients are summed in the order in which they lie there: else the first step of a resumed run would sum them
        in another order than the same step of a run that went on.
        """
        if not isinstance(laid_out.trained, DistributedDataParallel) or state.step >= recipe.total_steps:
            return
        with torch.random.fork_rng(devices=[]):
            inputs, targets = recipe.batch(torch.arange(1))
            laid_out.exchange.backward(recipe.loss_of(laid_out.trained(*inputs), targets), 1.0, ())
        state.optimizer.zero_grad()

    def _make_step(self, laid_out: LaidOut, state: TrainingState, recipe: Recipe) -> list[float]:
        """One step of this rank; returns the sums of what all ranks said."""
        for group in state.optimizer.param_groups:
            group["lr"] = recipe.learning_rate_at(state.step)
        clock = self.watch.clock
        clock.skip()
        samples = state.reader.next_batch()
        if self.ledger is not None:
            self.ledger.note(state.step + 1, samples)
        inputs, targets = recipe.batch(torch.from_numpy(samples))
        clock.lap("data")
        loss = recipe.loss_of(laid_out.trained(*inputs), targets)
        clock.lap("forward")
        weight = state.reader.weight
        state.optimizer.zero_grad()
        laid_out.exchange.backward(loss, weight, self._said(loss.item() * weight))
        with peers():
            optimizers.clip(self.spec.optimizer, state.model.parameters())
        clock.lap("backward")
        state.optimizer.step()
        clock.lap("optimiser")
        said = laid_out.exchange.read()
        clock.lap("communication")
        return said

    def _said(self, loss: float) -> list[float]:
        """Ranks hear of a signal at different steps; adding up what each heard makes them act on the same one."""
        is_superseded = is_check_asked = False
        if self.claim is not None and self.progress is not None and self.progress.is_due():
            is_superseded = self.claim.is_superseded()
            is_check_asked = self.watch.is_check_asked()
        heard = (self.stop.is_made, is_superseded, is_check_asked)
        return [loss / self.world.world_size, *heard, *self.checkpointer.progress()]

    def _agreed(self, said: list[float]) -> Agreement:
        total, *counts = said
        stops, claims, checks, *saves = map(round, counts)
        self._note_commit(self.checkpointer.hear(SaveProgress(*saves)))
        return Agreement(total, bool(stops), bool(claims), bool(checks))

    def _checkpoint(self, state: TrainingState) -> None:
        """Begin a checkpoint of this step, unless there is one; the next steps go on while it is written."""
        if state.step in (self.committed_step, self.checkpointer.step_in_flight):
            return
        if self.progress is not None:
            self.progress.beat("checkpointing", state.step, state.reader.position, state.last_loss)
        self.watch.clock.skip()
        self.watch.alive()
        self._drain()
        if self.ledger is not None:
            self.ledger.save()
        self.checkpointer.begin(state)
        self.watch.clock.lap("checkpoint")

    def _drain(self) -> None:
        """Wait for the checkpoint that is being written, if one is."""
        self._note_commit(self.checkpointer.drain())

    def _check_corruption(self, state: TrainingState, recipe: Recipe) -> None:
        """Every rank makes the same step; it changes nothing."""
        if self.spec.layout.is_sharded:
            self._say("corruption check: not made, since no two ranks of this layout compute the same")
            return
        share = self.spec.params.global_batch_size // self.world.world_size
        inputs, targets = recipe.batch(torch.arange(min(recipe.sample_count, share)))
        report = check(state.model, lambda: recipe.loss_of(state.model(*inputs), targets))
        self._say(report.sentence(state.step))
        if self.claim is not None:
            write_json(self.world.launch_dir / "corruption-check.json", {"step": state.step, **asdict(report)})

    def _note_commit(self, committed: Committed | None) -> None:
        if committed is None:
            return
        self.committed_step = committed.step
        if self.ledger is not None:
            self.ledger.note_commit(committed.step)
        if self.progress is not None and committed.at is not None:
            self.progress.committed(committed.step, committed.at)

    def _interrupt(self, state: TrainingState) -> None:
        self._checkpoint(state)
        self._drain()
        self._say(f"interrupted: checkpoint of step {state.step} committed")
        raise Interrupted(f"stopped on request at step {state.step}; its checkpoint is committed")

    def _report(self, state: TrainingState) -> None:
        if self.progress is None or self.page is None:
            return
        self.page.append(state.step, state.losses[-1])
        if self.progress.is_due() or state.step == self.progress.total_steps:
            self.progress.beat("training", state.step, state.reader.position, state.losses[-1])

    def _open_page(self, state: TrainingState) -> AbstractContextManager[object]:
        if self.claim is not None:
            self.page = LossPage(self.world.run_dir, state.losses)
        return self.page or nullcontext()

    def _open_ledger(self, state: TrainingState, recipe: Recipe, laid_out: LaidOut) -> None:
        """One of the ranks that read the same samples notes them."""
        if self.spec.sample_ledger and self.world.rank == laid_out.data_rank * self.spec.layout.tensor:
            opening = Opening(
                self.attempt,
                laid_out.data_rank,
                laid_out.data_size,
                state.step,
                recipe.sample_count,
                self.spec.params.global_batch_size,
            )
            self.ledger = SampleLedger(self.world.run_dir, opening)

    def _finish(self, state: TrainingState, recipe: Recipe) -> None:
        weights = whole_weights(state.model)
        if self.claim is None or self.progress is None:
            return
        self.claim.check()
        folder = self.world.run_dir / "model"
        digest = recipe.export(weights, state.losses, folder)
        result = {
            "schema": 1,
            "model_dir": str(folder),
            "model_digest": digest,
            "final_loss": state.losses[-1],
            "steps": state.step,
            "samples": state.reader.position,
            "losses_digest": losses.digest(state.losses),
        }
        write_json(self.world.run_dir / "result.json", result)
        self.progress.beat("done", state.step, state.reader.position, state.losses[-1])
        self._say(f"done: {state.step} steps, final loss {state.losses[-1]:.4f}, model {digest[:12]} in {folder}")

    def _say(self, line: str) -> None:
        if self.progress is not None:
            self.progress.say(line)
