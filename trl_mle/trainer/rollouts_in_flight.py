"""The rollouts of all processes while their programs run."""

import socket
import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object

from trl_mle.rewards import MLEReward
from trl_mle.rewards.mle_reward import POLL_S, PendingEvaluation, ProgramsProgress, cut_middle
from trl_mle.trainer.rollout_ledger import Rollout, RolloutLedger


class RolloutsInFlight:
    """
    A [`RolloutLedger`] that is the same on all processes, and the programs that this process executes.

    All processes call its methods together. While they wait they tell each other every fifth of a second what has
    finished, so that no time limit of a collective operation bounds how long a program may take.

    Args:
        ledger ([`RolloutLedger`]):
            Of all processes.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes the programs of this process.
    """

    def __init__(self, ledger: RolloutLedger, reward: MLEReward):
        self.ledger = ledger
        self._reward = reward
        self._pending: dict[int, PendingEvaluation] = {}  # of this process
        self._restored = False
        self._slots: int | None = None
        self._waited_s = 0.0
        self._last: tuple[float, float] | None = None  # when the last step was taken; for how long programs had run

    def add(self, rollouts: list[Rollout]) -> None:
        """Takes what each process has sampled, equally many, and executes their programs there."""
        self._restart()
        added = self.ledger.add(gather_object(rollouts))
        start = PartialState().process_index * len(rollouts)
        self._execute(added[start : start + len(rollouts)])

    def take(self, count: int) -> list[Rollout]:
        """Waits until so many rollouts can be trained on; returns those of all processes, in the order of sampling."""
        self._restart()  # with fewer in flight than before none may have been added
        began = time.monotonic()
        with ProgramsProgress(count, self._reward.show_progress) as progress:
            while True:
                self._poll()
                taken = self.ledger.take(count)
                if taken:
                    break
                running = [pending.running_s() for pending in self._pending.values()]
                progress.update(self.ledger.ready, f"slowest running {max(running, default=0):.0f} s")
                wait([item.future for item in self._pending.values()], POLL_S, return_when=FIRST_COMPLETED)
        self.ledger.check(gather_object(list(self._pending)))
        self._waited_s = time.monotonic() - began
        return taken

    def metrics(self, taken: list[Rollout]) -> dict[str, float]:
        """
        Those of [`RolloutLedger.metrics`], and of the time since the step before:

        - `wait_s`: seconds that training waited for programs.
        - `idle_s`: seconds that slots ran no program of these rollouts (but none, or an evaluation's), summed over the slots
          of all machines, where the executor knows them.
        """
        if self._slots is None:
            hosts = dict(gather_object([(socket.gethostname(), self._reward.slots or 0)]))
            self._slots = sum(hosts.values())
        now, ran_s = time.monotonic(), self.ledger.ran_s
        metrics = self.ledger.metrics(taken) | {"wait_s": self._waited_s}
        if self._last is not None and self._slots:
            then, ran_before_s = self._last
            metrics["idle_s"] = max(0.0, self._slots * (now - then) - (ran_s - ran_before_s))
        self._last = (now, ran_s)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it."""
        return self.ledger.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what [`state_dict`] gave. Programs that had not ended are executed again before others are."""
        self.ledger.load_state_dict(state)
        self._pending, self._last, self._restored = {}, None, True

    def _restart(self) -> None:
        """After a resume, executes again what had not ended."""
        if self._restored:
            self._restored = False
            self._execute(self.ledger.unfinished[PartialState().process_index :: PartialState().num_processes])

    def _execute(self, rollouts: list[Rollout]) -> None:
        known = all("competition" in rollout.row for rollout in rollouts)
        competitions = [rollout.row["competition"] for rollout in rollouts] if known else None
        items = self._reward.items([rollout.completion for rollout in rollouts], competitions)
        # Also for none: an instrumenting model may need all processes at once
        for rollout, pending in zip(rollouts, self._reward.submit(items), strict=True):
            self._pending[rollout.id] = pending

    def _poll(self) -> None:
        """Tells all processes what became of the programs of each."""
        news = []
        for number, pending in list(self._pending.items()):
            evaluation = None
            if pending.done():
                # As much of its output as is looked at later
                evaluation = replace(pending.result(), output=cut_middle(pending.result().output))
                del self._pending[number]
            news.append((number, pending.running_s(), evaluation))
        for number, running_s, evaluation in sorted(gather_object(news), key=lambda item: item[0]):
            if evaluation is None:
                self.ledger.observe(number, running_s)
            else:
                self.ledger.finish(number, evaluation)
