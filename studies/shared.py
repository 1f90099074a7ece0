"""What studies share with benchmarks: statistics of paired runs, and a tiny policy."""

import sys
from pathlib import Path


sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from paired import bootstrap, hypotheses, interval, read
from quickstart import mean_sd
from tiny_policy import TRAINING, save_policy


__all__ = ["TRAINING", "bootstrap", "hypotheses", "interval", "mean_sd", "read", "save_policy"]
