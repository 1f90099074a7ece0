"""Text that is not ours, where TRL hands it to the policy and where it shows it."""

from typing import Any

from trl import GRPOTrainer
from trl.data_utils import is_conversational

from trl_mle.prompts import plain_messages, special_tokens_of
from trl_mle.showing import for_terminal


class PlainTextTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] that takes texts for no more than that. The messages of a prompt hold no special tokens of the policy's
    tokenizer: they show tables, programs and what these print. And `log_completions` shows no control characters: a policy may
    write what moves a terminal's cursor or writes to its clipboard.
    """

    def _tokenize_prompts(self, prompts: list) -> tuple:
        if is_conversational({"prompt": prompts[0]}):
            tokens = special_tokens_of(self._tokenizer)
            prompts = [plain_messages(prompt, tokens) for prompt in prompts]
        return super()._tokenize_prompts(prompts)

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
