"""The texts of prompts and answers, where TRL hands them to the policy and where it shows them."""

from typing import Any

from trl import GRPOTrainer
from trl.data_utils import is_conversational

from trl_mle.prompts import (
    NO_THOUGHTS,
    after_thoughts,
    opening_of,
    plain_messages,
    special_tokens_of,
    without_opening,
)
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
        begun = [bool(opening_of(prompt)) for prompt in prompts]
        if len(set(begun)) > 1 and not self._is_vlm:  # each has the tokens that it has without the others
            rows: list[list[int]] = [[] for _ in prompts]
            for kind in (True, False):
                places = [i for i, is_begun in enumerate(begun) if is_begun is kind]
                found, *others = self._tokens([prompts[i] for i in places])
                for i, ids in zip(places, found, strict=True):
                    rows[i] = ids
            return rows, *others
        if is_conversational({"prompt": prompts[0]}):
            tokens = special_tokens_of(self._tokenizer)
            prompts = [plain_messages(prompt, tokens) for prompt in prompts]
        given: Any = self.chat_template_kwargs  # parsed by now
        if all(begun):
            self.chat_template_kwargs = given | NO_THOUGHTS
        prompt_ids, *others = super()._tokenize_prompts([without_opening(prompt) for prompt in prompts])
        self.chat_template_kwargs = given
        rows = [ids + self._begun(opening_of(prompt), ids) for prompt, ids in zip(prompts, prompt_ids, strict=True)]
        return rows, *others

    def _begun(self, opening: str, prompt_ids: list[int]) -> list[int]:
        """The tokens of what an answer begins with."""
        text = after_thoughts(opening, self._tokenizer.decode(prompt_ids[-8:])) if opening else ""
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def _generate(self, prompts: list) -> tuple:
        prompt_ids, completion_ids, tool_mask, completions, *others = super()._generate(prompts)
        # With a response template, TRL takes the end of the prompt for a part of the answer, too
        is_parsed = getattr(self._tokenizer, "response_template", None) is not None
        for prompt, completion in zip(prompts, completions, strict=True):
            if opening := opening_of(prompt):  # otherwise the completion may be a text, like its prompt
                text = completion[0].get("content") or ""
                if not (is_parsed and text.startswith(opening.rstrip())):
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


def with_defaults(template: str, kwargs: dict[str, Any]) -> str:
    """A chat template whose arguments have these values where they are not given."""
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
