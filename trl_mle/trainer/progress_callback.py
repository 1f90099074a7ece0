"""Prints one line per step instead of a dictionary of sixty metrics, which still go to `report_to`."""

import json
import math
import shlex
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from trl_mle.rewards.program_log import cut_last_line
from trl_mle.rewards.progress import METRICS_FILE
from trl_mle.showing import in_words, never_fail_to_print, number


LAST_STEPS = 3  # without a valid program, which are worth a word at the end


class TimeLeftCallback(TrainerCallback):
    """Prints how long training, which begins at once, will still take: when the first steps are logged, and whenever
    half of the steps that were left then are done."""

    def __init__(self) -> None:
        self._began_s, self._first = time.monotonic(), 0
        self._next = math.inf  # steps left when the time is said

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        left = state.max_steps - state.global_step
        if not state.is_world_process_zero or not 0 < left <= self._next:
            return
        step_s = (time.monotonic() - self._began_s) / (state.global_step - self._first)
        print(f"about {in_words(left * step_s)} left ({in_words(step_s)} a step)", flush=True)
        self._next = left / 2


class MLEProgressCallback(TimeLeftCallback):
    """
    Prints one line per step, how long training will still take, and at the end if no program of the last steps was
    valid. Also writes all metrics of the step to `metrics.jsonl` in the output folder, for `trl-mle watch` and
    `trl-mle report`. [`MLEGRPOTrainer`] removes transformers' own callback, which prints all of them.
    """

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        never_fail_to_print()  # also in a script of one's own
        self._began_s, self._first = time.monotonic(), state.global_step
        if not state.global_step:  # from another run
            metrics_file(args).unlink(missing_ok=True)
        cut_last_line(metrics_file(args))
        _append(args, state, {"ended": False})

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        _append(args, state, {"ended": True})
        rates = [entry["mle/valid_rate"] for entry in state.log_history if "mle/valid_rate" in entry]
        if rates and not any(rates[-LAST_STEPS:]):
            report = f"trl-mle report {shlex.quote(str(args.output_dir))}"
            print(f"no program was valid in the last steps: `{report}` shows how they failed", flush=True)

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or logs is None or "reward" not in logs:
            return
        _append(args, state, logs)
        width = len(str(state.max_steps))
        reward = "-" if logs["reward"] is None else f"{logs['reward']:.2f}"  # if our infrastructure failed every time
        parts = [f"step {state.global_step:>{width}}/{state.max_steps}", f"reward {reward:>6}"]
        if "mle/valid_rate" in logs:
            parts.append(f"valid {logs['mle/valid_rate']:4.0%}")
        if "mle/score/mean" in logs:
            best = f" (best {number(logs['mle/score/best'])})" if "mle/score/best" in logs else ""
            parts.append(f"score {number(logs['mle/score/mean'])}{best}")
        if "mle/duration_s/mean" in logs:
            parts.append(f"Δt {logs['mle/duration_s/mean']:.2f} s")
        print("  ".join(parts), flush=True)
        super().on_log(args, state, control)


def _append(args: Any, state: TrainerState, entries: dict[str, Any]) -> None:
    path = metrics_file(args)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": state.global_step, "max_steps": state.max_steps} | entries) + "\n")


def metrics_file(args: Any) -> Path:
    return Path(args.output_dir, METRICS_FILE)
