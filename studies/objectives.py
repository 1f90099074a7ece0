"""
What does an objective pay for, and what is it worth?

    python studies/objectives.py bandit
    python studies/objectives.py execute
    python studies/objectives.py study

`bandit` (objectives_bandit.py): a softmax policy over {fail, poor fast, good fast, good slow}, groups of 16, 128 rollouts an
update. Good slow scores 0.05 better than good fast, alike, or 0.05 worse; all scores have noise, so that alike means equally
distributed (and in one more case exactly equal). Valid programs are common at first, or rare. Training is synchronous, or
asynchronous through the trainer's ledger in simulated time: as it is, with rollouts older than 4 updates dropped, or
without PPO's clipping. Objectives are the trainer's, and so are weights: none, linear, linear in [0.5, 2], and inclusion (of
groups; asynchronous only). A placebo exchanges the durations for those of earlier rollouts with the same outcome before
linear weights are computed.
Primary outcome, written down before the first run: P(slow | good) after 100 and 400 updates, from 0.5; mean and 95% interval
over at least 20 seeds. Also P(fail). Expected without weights: 0.5 where scores are alike, and never towards the worse of
the two. The placebo is expected to do the same, and linear weights are expected to fail: they pay for slowness.

`execute`, then `study` (objectives_study.py): programs that the starter's grammar draws, without mistakes, are executed once
for each of 14 competitions and kept with their scores. A policy chooses among those that were executed: its logits are the
logarithm of how often each was drawn, and a parameter for each part, setting and other choice. It may make a mistake
at each of 16 places, independently, so that 0.26 of its programs are valid at first. Group-standardized policy gradient, Adam,
64 programs a step; lr 0.1 brings the valid share to about 0.93 in 40 steps, and 0.3 shows where objectives settle. A mistake
before the model is fitted ends a program as soon as the fastest one, a later one after all of its Δt.
Outcomes, computed exactly from the policy's probabilities: the valid share; the share of the gap between the untrained
policy's mean of valid programs and the best program that the mean closes; the same of the best of 8; the share of the gap
between the untrained best of 128 and the best program that the best of 128 closes; P(best of 128 > expected untrained best of
128); the same of the untrained best of 1,280. Draws include failures; the expected best is that of draws with a valid one.

Written down before its runs: `entropic` weights rewards by exp(β r), with β such that these weights are ln 2 nats from uniform, as in
TTT-Discover (2601.16175). Does it find better programs than `max_at_k` with k = 8? Primary outcome: the share of the gap that
the best of 128 closes, after 40 steps, one group of 64, lr 0.1, no entropy bonus. It runs in the real trainer only if its interval
lies above that of `max_at_k`, or they overlap. Also with ln 8, which nobody has proposed.

All commands continue where they were interrupted. After `cp -r studies/results/. outputs/studies`, `bandit` continues from
earlier simulations. The folder small-grammar in them has executed programs of an earlier, smaller grammar: `study --output
outputs/studies/objectives/small-grammar`.
"""

import argparse
from pathlib import Path

from objectives_bandit import bandit_main
from objectives_study import execute, regrade, study_main
from rich.console import Console


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    executing = commands.add_parser("execute")
    executing.add_argument("--num_programs", type=int, default=400, help="programs to draw for each competition")
    executing.add_argument(
        "--regrade", action="store_true", help="grade the executed programs again, and execute nothing"
    )
    bandit = commands.add_parser("bandit")
    study = commands.add_parser("study")
    study.add_argument("--num_seeds", type=int, default=10)
    study.add_argument("--arms", nargs="+", help="some of them, by their names in the table (all)")
    study.add_argument("--learning_rates", type=float, nargs="+", default=[0.1, 0.3])
    for command in (bandit, executing, study):
        command.add_argument("--output", type=Path, default=Path("outputs/studies/objectives"))
    args = parser.parse_args()
    if args.command == "bandit":
        bandit_main(args.output, Console())
    elif args.command == "study":
        study_main(args.output, args.num_seeds, args.learning_rates, args.arms, Console())
    elif args.regrade:
        regrade(args.output)
    else:
        execute(args.output, args.num_programs)


if __name__ == "__main__":
    main()
