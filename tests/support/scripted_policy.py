"""A policy and a language model without weights."""

import math

from trl_mle.models import Completion


class ScriptedPolicy:
    """Answers with a function of the prompt's text and the seed, and records what it was asked."""

    identity = "scripted"

    def __init__(self, answer):
        self.answer = answer
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


class ScriptedModel:
    """Gives its answers in turn, and then repeats the last one."""

    identity = "scripted"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.batches = []

    def complete(self, prompts, max_tokens):
        self.batches.append((list(prompts), max_tokens))
        return [self.answer() for _ in prompts]

    def answer(self):
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Completion(text, 0 if text is None else len(text.split()))


def fenced(program):
    return f"Plan.\n```python\n{program}\n```"
