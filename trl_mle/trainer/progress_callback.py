"""One line a step instead of a dictionary of sixty metrics, which go where `report_to` says all the same."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class MLEProgressCallback(TrainerCallback):
    """
    Prints what a step came to in one line: reward, share of valid submissions, mean and best score, mean Δt.

    It stands in for transformers' `ProgressCallback` and `PrinterCallback`; `log_history` and trackers are untouched.
    With several competitions the scores are left out, because they are of different metrics.

    Example:

    ```python
    >>> trainer.remove_callback(ProgressCallback)  # or PrinterCallback, with disable_tqdm
    >>> trainer.add_callback(MLEProgressCallback())
    ```
    """

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or logs is None or "reward" not in logs:
            return
        width = len(str(state.max_steps))
        parts = [f"step {state.global_step:>{width}}/{state.max_steps}", f"reward {logs['reward']:6.2f}"]
        if "mle/valid_rate" in logs:
            parts.append(f"valid {logs['mle/valid_rate']:4.0%}")
        if "mle/score/mean" in logs:
            best = f" (best {logs['mle/score/best']:.3f})" if "mle/score/best" in logs else ""
            parts.append(f"score {logs['mle/score/mean']:.3f}{best}")
        if "mle/duration_s/mean" in logs:
            parts.append(f"Δt {logs['mle/duration_s/mean']:.2f} s")
        if "step_time" in logs:
            parts.append(f"{logs['step_time']:.0f} s/step")
        print("  ".join(parts), flush=True)
