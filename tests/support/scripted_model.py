"""A language model with given answers."""

from trl_mle.models import Completion


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
