"""Every path of a text through a model, for tokenizers and ends of other families than Qwen2."""

import pytest
from datasets import Dataset
from support.model_families import BEGUN, FAMILIES, GOES_ON, PROGRAM, save_family
from support.toy_trainer import make_trainer, text_reward

from trl_mle.evaluation.policies import TransformersPolicy, check_policy
from trl_mle.launching.checks import load_tokenizer, prompt_tokens
from trl_mle.models.transformers_model import answer_text, tokenize_prompts


ASKED = {"role": "user", "content": "Write a program.\n    Indented,  with spaces – and an umlaut: ü."}
PROMPTS = [[ASKED], [ASKED, {"role": "assistant", "content": BEGUN}]]
ANSWERS = [PROGRAM, BEGUN + GOES_ON]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return save_family(tmp_path_factory.mktemp("model"), request.param)


def test_training_and_evaluation_ask_and_read_alike(folder, tmp_path):
    """With the same tokens, up to the same end; the trained policy's saved tokenizer, too."""
    seen = set()

    def reward(completions, completion_ids, **kwargs):
        seen.update((text[0]["content"], len(ids)) for text, ids in zip(completions, completion_ids, strict=True))
        return text_reward(completions)

    options = {"max_steps": 1, "max_completion_length": 16, "learning_rate": 0.0, "share_prompts": True}
    trainer = make_trainer(folder, tmp_path, reward, **options, chat_template_kwargs={"enable_thinking": False})
    trainer.train_dataset = Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS] * 6)
    trainer.train()
    assert seen == {(answer, 2) for answer in ANSWERS}

    trainer.save_model(str(tmp_path / "policy"))
    check_policy(str(tmp_path / "policy"))
    policy = TransformersPolicy(str(tmp_path / "policy"))
    tokenizer, asked = load_tokenizer(folder), tokenize_prompts(policy.tokenizer, PROMPTS)
    assert trainer._tokenize_prompts(PROMPTS)[0] == asked
    for prompt, ids in zip(PROMPTS, asked, strict=True):
        assert trainer._tokenize_prompts([prompt])[0] == [ids]
        assert {f(prompt) for f in (trainer.count_tokens, policy.count_tokens)} == {prompt_tokens(tokenizer, prompt)}
    completions = policy.sample(PROMPTS, 16, [0, 1])
    numbers = [(completion.text, completion.tokens, completion.prompt_tokens) for completion in completions]
    assert numbers == [(answer, 2, len(ids)) for answer, ids in zip(ANSWERS, asked, strict=True)]


def test_an_answer_goes_on_where_it_was_begun(folder):
    """Whatever its tokens are, the text is that of prompt and answer together."""
    tokenizer = load_tokenizer(folder)
    for begun in (BEGUN, "```python\n", "x = 1  #", "é", "\n\n"):
        prompt = [ASKED, {"role": "assistant", "content": begun}]
        ids = tokenize_prompts(tokenizer, [prompt])[0]
        for goes_on in (" y", "y", "  y = 2\n", "\ny", " , y .", "é", " ü\n", "", " "):
            whole = tokenize_prompts(tokenizer, [[ASKED, {"role": "assistant", "content": begun + goes_on}]])[0]
            assert whole[: len(ids)] == ids
            assert answer_text(tokenizer, prompt, ids, whole[len(ids) :]) == begun + goes_on
