"""The prompt of an agent with tools."""

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits
from trl_mle.prompts.prompt import MAX_TOKENS, SECTION_TOKENS, task
from trl_mle.prompts.tokens import estimate_tokens


_ASK = """\
Look at the files with read_file. Run Python programs with start_program, {count} at most, and see with wait_for_program what came out. A \
program reads its data from input/ and writes submission.csv to the working directory; nothing else is kept from one to the next. \
The last program that you start is graded, and only on whether its submission is valid and how well it scores."""


def agent_prompt(comp: Competition, limits: Limits, max_programs: int) -> list[dict[str, str]]:
    """
    Builds the prompt for an agent with the tools of an [`~trl_mle.environments.MLEEnvironment`].

    Args:
        comp ([`~trl_mle.competitions.Competition`]):
            The competition.
        limits ([`~trl_mle.execution.Limits`]):
            Limits of a program: an executor's `limits`.
        max_programs (`int`):
            Maximum number of programs.

    Returns:
        `list[dict[str, str]]`: A conversation of one user message, in at most about 1,000 tokens by [`estimate_tokens`].
    """
    ask = _ASK.format(count=max_programs)
    return [{"role": "user", "content": task(comp, limits, SECTION_TOKENS, MAX_TOKENS - estimate_tokens(ask)) + ask}]
