"""The rollouts of all processes while their programs run."""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object

from trl_mle.rewards import MLEReward
from trl_mle.rewards.mle_reward import POLL_S
from trl_mle.rewards.pending import PendingEvaluation
from trl_mle.trainer.batch import Row
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger
from trl_mle.trainer.rollouts.sampler import Sampler


class RolloutsInFlight:
    """A [`RolloutLedger`] that is the same on all processes, plus the programs that this process executes. All
    processes call its methods together. While they wait, they exchange every fifth of a second which programs have
    finished, so that no timeout of a collective operation limits a program."""

    def __init__(self, ledger: RolloutLedger, reward: MLEReward, sampler: Sampler):
        self.ledger = ledger
        self._reward = reward
        self._sampler = sampler
        self._pending: dict[int, PendingEvaluation] = {}  # of this process
        self._restored = False
        self._metrics: dict[str, float] = {}

    def fill(self, count: int, choose: Callable[[], list[Row]]) -> None:
        """Samples until `max_in_flight` rollouts are in flight, `count` of each batch that `choose` chooses. A vLLM
        server samples the last batch while the trainer continues."""
        began = time.monotonic()
        if self._restored:  # after a resume, executes unfinished programs again
            self._restored = False
            self._execute(self.ledger.unfinished[PartialState().process_index :: PartialState().num_processes])
        if self._sampler.rows:
            self._arrive()
        ledger = self.ledger
        while ledger.has_room(count):  # once, unless there are none yet
            self._sampler.ask(choose(), ledger.step)
            is_last = len(ledger.in_flight) + 2 * count > ledger.max_in_flight and len(ledger.in_flight) >= count
            if is_last and self._sampler.server is not None:
                break
            self._arrive()
        self._metrics = {"generation_wait_s": time.monotonic() - began}

    def take(self, count: int) -> list[Rollout]:
        """Waits until `count` rollouts of all processes can be trained on, and returns them in sampling order."""
        began = time.monotonic()
        with self._reward.progress(count) as progress:
            while True:
                if self._sampler.has_arrived():
                    self._arrive()
                self._poll()
                taken = self.ledger.take(count)
                if taken:
                    break
                running = [pending.running_s() for pending in self._pending.values()]
                progress.update(self.ledger.ready, f"slowest running {max(running, default=0):.0f} s")
                wait([item.awaited for item in self._pending.values()], POLL_S, return_when=FIRST_COMPLETED)
        self._metrics |= {"wait_s": time.monotonic() - began} | self.ledger.metrics(taken)
        return taken

    def rows(self, taken: list[Rollout]) -> list[Row]:
        return [
            item.row
            | {"evaluation": item.evaluation, "rollout_id": item.id, "staleness": self.ledger.step - 1 - item.step}
            for item in taken
        ]

    def metrics(self) -> dict[str, float]:
        return {f"async/{name}": value for name, value in self._metrics.items()}

    def stop(self) -> None:
        """Ends the programs of this process. Should training go on, they are executed again."""
        for pending in self._pending.values():
            self._reward.stop(pending)
        self._pending, self._restored = {}, True

    def state_dict(self) -> dict[str, Any]:
        return self.ledger.state_dict() | {"asked": self._sampler.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]. Unfinished programs are executed again first, and the current policy samples
        completions that had not arrived."""
        self.ledger.load_state_dict(state)
        if self.ledger.in_flight and not self._sampler.keeps_logps:
            raise ValueError("the checkpoint has rollouts of earlier steps: raise max_in_flight to two batches")
        self._sampler.load(state["asked"], self.ledger.step)
        self.stop()

    def _arrive(self) -> None:
        """Adds the completions of each process, equally many, and executes their programs there."""
        rollouts = self._sampler.receive()
        added = self.ledger.add(gather_object(rollouts), self._sampler.step)
        start = PartialState().process_index * len(rollouts)
        self._execute(added[start : start + len(rollouts)])

    def _execute(self, rollouts: list[Rollout]) -> None:
        has_ids = all("competition" in rollout.row for rollout in rollouts)
        competitions = [rollout.row["competition"] for rollout in rollouts] if has_ids else None
        items = self._reward.items([rollout.completion for rollout in rollouts], competitions)
        # Also for none: an instrumenting model may need all processes at once
        for rollout, pending in zip(rollouts, self._reward.submit(items), strict=True):
            self._pending[rollout.id] = pending

    def _poll(self) -> None:
        """Shares the results of each process's programs with all processes."""
        news = []
        for number, pending in list(self._pending.items()):
            if pending.poll():
                news.append((number, pending.result().shortened()))
                del self._pending[number]
        for number, evaluation in sorted(gather_object(news), key=lambda item: item[0]):
            self.ledger.finish(number, evaluation)
