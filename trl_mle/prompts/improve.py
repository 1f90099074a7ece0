"""The prompt that shows a program with its output and asks for a better one."""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits
from trl_mle.prompts.opening import known_opening
from trl_mle.prompts.prompt import PROGRAM_ALONE, PROGRAM_FORM, task
from trl_mle.prompts.untrusted_text import fence_for, plain_text


# Token budget of the task in this prompt; the rest is for the program and its output
SECTION_TOKENS, TASK_TOKENS = 60, 420
PROGRAM_SHARE = 0.75
LEFT_OUT = "# … lines left out: {count} …"
LONG_LINE = 400  # characters; longer lines, such as printed arrays, are left out first

PREVIOUS = "Here is a previous solution:"
FAILED = "Here is a program that failed:"
_IMPROVE = (
    "Improve it: think about what limits its score, say in a short plan what you change, then write " + PROGRAM_FORM
)
_REPAIR = "Repair it: say in a short plan why it failed, then write " + PROGRAM_FORM
_IMPROVE_ALONE = "Improve it: think about what limits its score. " + PROGRAM_ALONE
_REPAIR_ALONE = "Repair it: think about why it failed. " + PROGRAM_ALONE

_task = lru_cache(maxsize=64)(task)  # training requests the same ones repeatedly

_PROGRAM = """\
{what}

{fence}python
{program}
{fence}

It printed:

{fence}
{output}
{fence}
{score}
{ask}"""


def improve_prompt(
    comp: Competition,
    program: str,
    output: str,
    limits: Limits,
    max_tokens: int,
    count_tokens: Callable[[list[dict[str, str]]], int],
    failed: bool = False,
    test_score: float | None = None,
    begin_program: bool = False,
) -> list[dict[str, str]]:
    """
    Builds the prompt to improve a solution (https://huggingface.co/papers/2509.01684, section 4.3), or to repair a
    failed program. If it is too long, very long lines are left out first, and then lines in the middle.

    Args:
        comp ([`~trl_mle.competitions.Competition`]), limits ([`~trl_mle.execution.Limits`]):
            The competition, and the executor's limits.
        program, output (`str`):
            The program to improve, and its output.
        max_tokens (`int`), count_tokens (`Callable`):
            Maximum length of the prompt, and what counts the policy's tokens of a conversation.
        failed (`bool`, *optional*, defaults to `False`), test_score (`float`, *optional*):
            Whether the program failed, and its score on the hidden answers, if the prompt should state it.
        begin_program (`bool`, *optional*, defaults to `False`):
            Whether to begin the answer, see [`scratch_prompt`], instead of asking for a plan.

    Returns:
        `list[dict[str, str]]`: A conversation. Raises `ValueError` without room for one.
    """
    score = f"\nIts score on the test set: {test_score:g}.\n" if test_score is not None else ""
    task_text = _task(comp, limits, SECTION_TOKENS, TASK_TOKENS)
    what, ask = (FAILED, (_REPAIR, _REPAIR_ALONE)) if failed else (PREVIOUS, (_IMPROVE, _IMPROVE_ALONE))
    begun = [{"role": "assistant", "content": known_opening(comp)}] if begin_program else []
    program_lines, output_lines = (plain_text(text.strip("\n")).split("\n") for text in (program, output))

    def prompt(program_kept: int, output_kept: int) -> list[dict[str, str]]:
        shown = {"program": _keep(program_lines, program_kept), "output": _keep(output_lines, output_kept)}
        fence = fence_for(*shown.values())
        text = _PROGRAM.format(**shown, what=what, fence=fence, score=score, ask=ask[begin_program])
        return [{"role": "user", "content": task_text + text}, *begun]

    def tokens(*kept: int) -> int:
        return count_tokens(prompt(*kept))

    if tokens(0, 0) > max_tokens:
        what = f"a prompt to improve solutions of {comp.id!r} takes {tokens(0, 0)} tokens without one"
        raise ValueError(f"{what}: raise max_prompt_length={max_tokens}, or set improve_probability: 0")
    program_kept, output_kept = len(program_lines), len(output_lines)
    if tokens(program_kept, output_kept) > max_tokens:
        program_lines, output_lines = _without_long(program_lines), _without_long(output_lines)
        for_program = int(PROGRAM_SHARE * (max_tokens - tokens(0, 0)))
        output_kept = _most(output_kept, lambda kept: tokens(0, kept) <= max_tokens - for_program)
        program_kept = _most(program_kept, lambda kept: tokens(kept, output_kept) <= max_tokens)
        # The output gets what the program leaves over
        all_output = len(output_lines)
        output_kept = _most(all_output, lambda kept: tokens(program_kept, kept) <= max_tokens, output_kept)
    return prompt(program_kept, output_kept)


def _without_long(lines: list[str]) -> list[str]:
    return [line if len(line) <= LONG_LINE else LEFT_OUT.format(count=1) for line in lines]


def _keep(lines: list[str], kept: int) -> str:
    """Keeps this many lines, from the beginning and the end."""
    if kept >= len(lines):
        return "\n".join(lines)
    head = (kept + 1) // 2
    return "\n".join([*lines[:head], LEFT_OUT.format(count=len(lines) - kept), *lines[len(lines) - (kept - head) :]])


def _most(count: int, fits: Callable[[int], bool], low: int = 0) -> int:
    """The largest number of lines, up to `count`, that fits, by bisection; `low` always fits."""
    if fits(count):
        return count
    return low + bisect_left(range(low + 1, count), True, key=lambda kept: not fits(kept))
