"""What studies share with each other and with benchmarks: statistics of paired runs, a tiny policy, simulated programs."""

import heapq
import sys
from pathlib import Path


sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from paired import bootstrap, hypotheses, interval, read
from quickstart import mean_sd
from tiny_policy import TRAINING, save_policy

from trl_mle.trainer.rollouts.ledger import RolloutLedger


__all__ = ["TRAINING", "bootstrap", "hypotheses", "interval", "mean_sd", "read", "save_policy", "stop_dropped"]


def stop_dropped(ledger: RolloutLedger, queue: list[int], running: list[tuple[float, float, int]]) -> None:
    """Takes the programs of rollouts that the ledger has dropped out of a simulation's queue and its heap of end, start, id."""
    queue[:] = [number for number in queue if number in ledger.in_flight]
    running[:] = [entry for entry in running if entry[2] in ledger.in_flight]
    heapq.heapify(running)
