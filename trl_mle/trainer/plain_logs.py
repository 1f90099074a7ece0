"""The completions that `log_completions` shows."""

from typing import Any

from trl import GRPOTrainer

from trl_mle.showing import for_terminal


class PlainLogsTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] whose `log_completions` shows prompts, completions and further columns as the plain text that
    they are: a policy may write what moves a terminal's cursor or writes to its clipboard.
    """

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.log_completions:
            kept: Any = self._logs
            for column in (kept["prompt"], kept["completion"], *kept["extra"].values()):
                values = [_plain(value) for value in column]
                column.clear()
                column.extend(values)
        super().log(logs, start_time)


def _plain(value: Any) -> Any:
    """Makes all texts plain, in the messages of a conversation, too."""
    if isinstance(value, str):
        return for_terminal(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
