"""A policy without a model, and an executor that counts."""

import math

from support.fake_executor import FakeExecutor
from trl_mle.instrumentation import InstrumentedProgram
from trl_mle.models import Completion


class ScriptedPolicy:
    """
    Answers with a function of the prompt and the seed, and records what it was asked.

    Args:
        answer (`Callable[[str, int], str | None]`):
            Maps a prompt's text and its seed to the completion.
        identity (`str`, *optional*, defaults to `"scripted"`):
            Distinguishes it from other policies.
    """

    def __init__(self, answer, identity="scripted"):
        self.answer, self.identity = answer, identity
        self.prompts, self.seeds, self.max_times_s = [], [], []

    def count_tokens(self, prompt):
        return len(prompt[0]["content"]) // 3

    def sample(self, prompts, max_new_tokens, seeds, max_time_s=math.inf):
        self.prompts += prompts
        self.seeds += seeds
        self.max_times_s.append(max_time_s)
        texts = [self.answer(prompt[0]["content"], seed) for prompt, seed in zip(prompts, seeds, strict=True)]
        return [
            Completion(None, error=f"429 at {seed}") if text is None else Completion(text, tokens=7, prompt_tokens=100)
            for text, seed in zip(texts, seeds, strict=True)
        ]


def fenced(program):
    return f"Plan.\n```python\n{program}\n```"


class CountingExecutor(FakeExecutor):
    """Passes programs on to an executor and records their sources; after `limit` of them it raises KeyboardInterrupt."""

    def __init__(self, executor, limit=None):
        self.executor, self.limit, self.sources = executor, limit, []

    def submit(self, program, competition):
        if len(self.sources) == self.limit:
            raise KeyboardInterrupt
        self.sources.append(program.original if isinstance(program, InstrumentedProgram) else program)
        return self.executor.submit(program, competition)
