"""Builds the policy's prompts, and extracts the program from its completions."""

from trl_mle.prompts.extract import extract_code, given_program
from trl_mle.prompts.ideas import Idea, Ideas
from trl_mle.prompts.improve import improve_prompt
from trl_mle.prompts.opening import NO_THOUGHTS, after_thoughts, opening, opening_of, without_opening
from trl_mle.prompts.packages import keep_packages
from trl_mle.prompts.prompt import agent_prompt, scratch_prompt, submission_rules
from trl_mle.prompts.tokens import estimate_tokens
from trl_mle.prompts.untrusted_text import plain_messages, plain_text, special_tokens_of
from trl_mle.prompts.when_read import PromptsWhenRead


__all__ = [
    "NO_THOUGHTS",
    "Idea",
    "Ideas",
    "PromptsWhenRead",
    "after_thoughts",
    "agent_prompt",
    "estimate_tokens",
    "extract_code",
    "given_program",
    "improve_prompt",
    "keep_packages",
    "opening",
    "opening_of",
    "plain_messages",
    "plain_text",
    "scratch_prompt",
    "special_tokens_of",
    "submission_rules",
    "without_opening",
]
