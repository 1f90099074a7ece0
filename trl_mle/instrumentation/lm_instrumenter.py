"""Places milestone prints with a frozen language model, as in the paper."""

import io
import secrets
import time
import tokenize
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, get_args

from trl_mle.execution.program import InstrumentedProgram, ProgramError, parse_program, split_lines
from trl_mle.instrumentation import placements
from trl_mle.instrumentation.ast_instrumenter import AstInstrumenter
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.milestones import DESCRIPTIONS, IMPORTS
from trl_mle.instrumentation.steps.placing import find_steps
from trl_mle.instrumentation.verify import VerificationError, verify
from trl_mle.models import LanguageModel
from trl_mle.prompts.extract import extract_code
from trl_mle.prompts.untrusted_text import fence_for, plain_text


MAX_STRING = 60  # characters of a string shown to the model

Mode = Literal["quote", "rewrite"]
QUOTE_TOKENS = 256  # tokens of an answer in quote mode
REWRITE_TOKENS = 1536  # tokens of an answer in rewrite mode: a program of 1,024 tokens plus the prints

_STEPS = "\n".join(f"- {milestone}: {description}" for milestone, description in DESCRIPTIONS.items())

# The program stands first: small models otherwise copy the steps. They copy the example, too, but imports need none
QUOTE_PROMPT = f"""\
{{fence}}python
{{program}}
{{fence}}

Copy the line of this program that does each of these steps:
{_STEPS}

Answer with the name of the step, a colon, and the line, such as `imports: from os import path`. Leave out a step \
that the program does not do."""

REWRITE_PROMPT = f"""\
Here is a Python program. Insert a print statement after each of these steps, where the program does it:
{_STEPS}

The statement is print("milestone: <name of the step>"), on a line of its own. Change nothing else. Answer with the \
whole program in a ```python block.

{{fence}}python
{{program}}
{{fence}}"""


# Reasons to reject an answer, or a milestone in it
REASONS = ("no_answer", "empty", "changed", "impossible")


class LmInstrumenter:
    """
    Asks a frozen language model where programs reach the milestones (https://huggingface.co/papers/2509.01684, section
    4.2), and [`AstInstrumenter`] if it gives no usable answer. It sees no comments, and 60 characters of a string: a
    policy could influence it. A program that misleads it gains 0.1 per milestone, less than by any valid submission.

    Args:
        model ([`LanguageModel`]):
            The frozen model. Never the policy being trained, which would learn to reward itself.
        mode (`str`, *optional*, defaults to `"quote"`):
            `"quote"`: the model copies a line for each milestone. `"rewrite"`: it returns the program with prints, as
            in the paper; accepted if the rest equals the original.
    """

    def __init__(self, model: LanguageModel, mode: Mode = "quote"):
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be 'quote' or 'rewrite', got {mode!r}")
        self.model = model
        self.mode = mode
        self.fallback = AstInstrumenter()
        self._counts: Counter[str] = Counter()

    def instrument(self, source: str, nonce: str | None = None) -> InstrumentedProgram:
        """Places the prints of one program, see [`AstInstrumenter.instrument`]."""
        return self.instrument_many([source], nonce)[0]

    def instrument_many(self, sources: Sequence[str], nonce: str | None = None) -> list[InstrumentedProgram]:
        """Places the prints of several programs, in one call of the model, which sees equal ones once."""
        started = time.monotonic()
        prompts = {source: prompt for source in sources if (prompt := self._prompt(source)) is not None}
        tokens = QUOTE_TOKENS if self.mode == "quote" else REWRITE_TOKENS
        completions = self.model.complete(list(prompts.values()), tokens) if prompts else []
        answers = zip(prompts, completions, strict=True)
        places = {source: self._read(source, completion.text) for source, completion in answers}
        programs = [self._place(source, places.get(source, []), nonce) for source in sources]
        self._counts["tokens"] += sum(completion.tokens for completion in completions)
        self._counts["asked"] += len(prompts)
        self._counts["programs"] += len(sources)
        self._counts["latency_s"] += time.monotonic() - started  # type: ignore[assignment]
        return programs

    def metrics(self) -> dict[str, float]:
        """
        Metrics since the last call: shares of programs by who instrumented them, tokens per program, seconds, and
        shares of rejected answers by reason.
        """
        counts, self._counts = self._counts, Counter()
        programs, asked = counts["programs"], max(1, counts["asked"])
        if not programs:
            return {}
        metrics = {f"{name}_rate": counts[name] / programs for name in ("lm", "ast", "none")}
        metrics |= {"tokens_per_program": counts["tokens"] / programs, "latency_s": float(counts["latency_s"])}
        return metrics | {f"rejected/{reason}": counts[f"rejected/{reason}"] / asked for reason in REASONS}

    def _prompt(self, source: str) -> str | None:
        text = visible(source, cut_strings=self.mode != "rewrite")
        if text is None:
            return None
        text, prompt = plain_text(text), QUOTE_PROMPT if self.mode == "quote" else REWRITE_PROMPT
        return prompt.replace("{fence}", fence_for(text)).replace("{program}", text)

    def _read(self, source: str, answer: str | None) -> list[tuple[int, str]]:
        """The placements of an answer; empty if it is rejected, or without one."""
        if answer is None:
            self._counts["rejected/no_answer"] += 1
            return []
        if self.mode == "quote" or not answer:  # nothing is not a changed program
            places = placements.parse_quotes(plain_text(visible(source, cut_strings=True) or ""), answer)
        else:
            try:
                places = placements.parse_rewrite(source, extract_code(answer) or answer)
            except VerificationError:
                self._counts["rejected/changed"] += 1
                return []
        kept = placements.possible(source, places)
        self._counts["rejected/empty"] += not places
        self._counts["rejected/impossible"] += len(kept) < len(places)
        if kept and self.mode == "quote" and IMPORTS not in (milestone for _, milestone in kept):
            kept += [step for step in find_steps(parse_program(source)) if step[1] == IMPORTS]
        return kept

    def _place(self, source: str, places: list[tuple[int, str]], nonce: str | None) -> InstrumentedProgram:
        nonce = nonce or secrets.token_hex(8)
        if places:
            with suppress(ProgramError):  # such as one that replaces `print`
                program = insert_prints(source, places, nonce)
                verify(source, program.source, nonce)
                if program.milestones:
                    self._counts["lm"] += 1
                    return program
        program = self.fallback.instrument(source, nonce)
        self._counts["ast" if program.milestones else "none"] += 1
        return program


def visible(source: str, cut_strings: bool) -> str | None:
    """What the model sees of a program: no comments, and the beginnings of strings; `None` if it is not Python."""
    lines = [line.rstrip("\r\n") for line in split_lines(source.removeprefix("\ufeff"))]
    try:
        parse_program(source)
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline))
    except (ProgramError, SyntaxError, tokenize.TokenError):
        return None
    for token in reversed(tokens):
        (line, column), (last_line, last_column) = token.start, token.end
        kind = tokenize.tok_name[token.type]
        if kind == "COMMENT":
            lines[line - 1] = lines[line - 1][:column].rstrip()
        elif kind in ("STRING", "FSTRING_MIDDLE") and cut_strings and len(token.string) > MAX_STRING:
            beginning = token.string.split("\n")[0][:MAX_STRING] + "…"
            rest = lines[last_line - 1][last_column:]
            lines[line - 1 : last_line] = [lines[line - 1][:column] + beginning] + [""] * (last_line - line)
            lines[last_line - 1] += rest
    return "\n".join(lines)
