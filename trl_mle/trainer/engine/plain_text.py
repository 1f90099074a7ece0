"""
The texts of prompts and answers, where TRL hands them to the policy and where it shows them.

The messages of a prompt hold no special tokens of the policy's tokenizer: they show tables, programs and what these
print. A prompt may end in a message of the assistant: then the policy goes on with it, without thinking first, and for
rewards it is a part of the completion's text, though not of its tokens, and not of the prompt.
"""

from typing import Any

from accelerate.utils import recursively_apply
from trl import GRPOTrainer
from trl.data_utils import is_conversational

from trl_mle.competitions import CompetitionError
from trl_mle.models.transformers_model import answer_text, tokenize_prompts
from trl_mle.prompts import opening_of, plain_messages, special_tokens_of
from trl_mle.showing import for_terminal


def keep_template_arguments(trainer: GRPOTrainer) -> None:
    """Makes `chat_template_kwargs` defaults of the chat template that is saved with the policy."""
    arguments: Any = trainer.chat_template_kwargs  # parsed by now
    if arguments:
        trainer._tokenizer.chat_template = with_defaults(trainer._tokenizer.chat_template, arguments)


def tokens_of_begun(trainer: GRPOTrainer, prompts: list) -> tuple | None:
    """What TRL's `_tokenize_prompts` returns, for prompts of which some begin the answer; `None` if none does."""
    if trainer.environment_factories is not None or not any(map(opening_of, prompts)):
        return None
    arguments: Any = trainer.chat_template_kwargs  # parsed by now
    arguments = arguments | {"tools": trainer.tools or None, "chat_template": trainer.chat_template}
    return tokenize_prompts(trainer._tokenizer, prompts, arguments), None, {}


def plain(trainer: GRPOTrainer, prompts: list) -> list:
    if not is_conversational({"prompt": prompts[0]}):
        return prompts
    tokens = special_tokens_of(trainer._tokenizer)
    return [plain_messages(prompt, tokens) for prompt in prompts]


def check_length(prompts: list, prompt_ids: list[list[int]], limit: int | None) -> None:
    """Raises [`~trl_mle.competitions.CompetitionError`] if a prompt has too many tokens."""
    for prompt, ids in zip(prompts, prompt_ids, strict=True):
        if limit is not None and len(ids) > limit:
            text = prompt if isinstance(prompt, str) else str(prompt[0]["content"])
            count = len(ids)
            raise CompetitionError(f"a prompt has {count} tokens, more than max_prompt_length={limit} ({text[:60]!r})")


def begin_answers(trainer: GRPOTrainer, prompts: list, generated: tuple) -> None:
    """Puts what prompts begin before the completions' texts; `generated` is what TRL's `_generate` returned."""
    prompt_ids, completion_ids, _, completions, *_ = generated
    # With a response template, TRL takes the end of the prompt for a part of the answer, too
    is_parsed = getattr(trainer._tokenizer, "response_template", None) is not None
    for prompt, prefix, ids, completion in zip(prompts, prompt_ids, completion_ids, completions, strict=True):
        if not (opening := opening_of(prompt)):
            continue
        text = completion[0].get("content") or ""
        if not is_parsed:
            completion[0]["content"] = answer_text(trainer._tokenizer, prompt, prefix, ids)
        elif not text.startswith(opening.rstrip()):
            completion[0]["content"] = opening + text


def make_logs_plain(logs: Any) -> None:
    """Removes control characters, which a policy may write, from what `log_completions` shows."""
    for column in (logs["prompt"], logs["completion"], *logs["extra"].values()):
        values = recursively_apply(for_terminal, list(column), test_type=lambda value: isinstance(value, str))
        column.clear()
        column.extend(values)


def with_defaults(template: Any, kwargs: dict[str, Any]) -> Any:
    """A chat template, or several by name, whose arguments have these values where they are not given."""
    if isinstance(template, dict):
        return {name: with_defaults(named, kwargs) for name, named in template.items()}
    lines = [f"{{%- set {name} = {name} | default({value!r}) -%}}\n" for name, value in kwargs.items()]
    return "".join(line for line in lines if line not in template) + template
