"""The texts of prompts and answers, where TRL hands them to the policy and where it shows them."""

from typing import Any

from trl import GRPOTrainer
from trl.data_utils import is_conversational

from trl_mle.models import answer_text, tokenize_prompts
from trl_mle.prompts import opening_of, plain_messages, special_tokens_of, without_opening
from trl_mle.showing import for_terminal
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


class LongPrompt(ValueError):
    """A prompt is longer than `max_prompt_length`."""

    def __init__(self, prompt: Any, tokens: int, limit: int):
        super().__init__(
            f"a prompt has {tokens} tokens, more than max_prompt_length={limit}: raise it, or set it to null"
        )
        self.prompt = prompt


class PlainTextTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] that takes texts for no more than that. The messages of a prompt hold no special tokens of the policy's
    tokenizer: they show tables, programs and what these print. And `log_completions` shows no control characters: a policy may
    write what moves a terminal's cursor or writes to its clipboard.

    A prompt may end in a message of the assistant: then the policy goes on with it, without thinking first, and for rewards it is
    a part of the completion's text, though not of its tokens, and not of the prompt. Prompts longer than
    `args.max_prompt_length` are refused.

    `chat_template_kwargs` become defaults of the chat template that is saved with the policy, so that it is later asked as it
    was in training.
    """

    args: MLEGRPOConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given: Any = self.chat_template_kwargs  # parsed by now
        if given:
            self._tokenizer.chat_template = with_defaults(self._tokenizer.chat_template, given)

    def _tokenize_prompts(self, prompts: list) -> tuple:
        prompt_ids, *others = self._tokens(prompts)
        limit = self.args.max_prompt_length
        longest = max(range(len(prompts)), key=lambda i: len(prompt_ids[i]))
        if limit is not None and len(prompt_ids[longest]) > limit:
            raise LongPrompt(prompts[longest], len(prompt_ids[longest]), limit)
        return prompt_ids, *others

    def count_tokens(self, prompt: list[dict[str, str]]) -> int:
        """Number of tokens of a prompt of any length."""
        return len(self._tokens([prompt])[0][0])

    def _tokens(self, prompts: list) -> tuple:
        if self.environment_factories is None and any(map(opening_of, prompts)):
            given: Any = self.chat_template_kwargs  # parsed by now
            given = given | {"tools": self.tools or None, "chat_template": self.chat_template}
            return tokenize_prompts(self._tokenizer, prompts, given), None, {}
        if is_conversational({"prompt": prompts[0]}):
            tokens = special_tokens_of(self._tokenizer)
            prompts = [plain_messages(prompt, tokens) for prompt in prompts]
        return super()._tokenize_prompts(prompts)

    def _generate(self, prompts: list) -> tuple:
        prompt_ids, completion_ids, tool_mask, completions, *others = super()._generate(prompts)
        # With a response template, TRL takes the end of the prompt for a part of the answer, too
        is_parsed = getattr(self._tokenizer, "response_template", None) is not None
        for prompt, asked, ids, completion in zip(prompts, prompt_ids, completion_ids, completions, strict=True):
            if not (opening := opening_of(prompt)):
                continue
            text = completion[0].get("content") or ""
            if not is_parsed:
                completion[0]["content"] = answer_text(self._tokenizer, prompt, asked, ids)
            elif not text.startswith(opening.rstrip()):
                completion[0]["content"] = opening + text
        return prompt_ids, completion_ids, tool_mask, completions, *others

    def _calculate_rewards(self, inputs: list, prompts: list, completions: list, completion_ids_list: list) -> Any:
        # A reward model reads a prompt and its completion as one conversation, in which the opening is a part of the latter
        prompts = [without_opening(prompt) for prompt in prompts]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.log_completions:
            kept: Any = self._logs
            for column in (kept["prompt"], kept["completion"], *kept["extra"].values()):
                values = [_plain(value) for value in column]
                column.clear()
                column.extend(values)
        super().log(logs, start_time)


def with_defaults(template: Any, kwargs: dict[str, Any]) -> Any:
    """A chat template, or several by name, whose arguments have these values where they are not given."""
    if isinstance(template, dict):
        return {name: with_defaults(named, kwargs) for name, named in template.items()}
    lines = [f"{{%- set {name} = {name} | default({value!r}) -%}}\n" for name, value in kwargs.items()]
    return "".join(line for line in lines if line not in template) + template


def _plain(value: Any) -> Any:
    """Makes all texts plain, in the messages of a conversation, too."""
    if isinstance(value, str):
        return for_terminal(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
