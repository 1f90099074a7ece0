import pytest
from datasets import Dataset
from support.hostile_texts import HOSTILE, check_plain
from support.thinking import ALWAYS_THINKS, THINKS, with_template
from support.toy_trainer import PROMPTS, make_trainer, text_reward
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl.trainer import grpo_trainer

from trl_mle.models.transformers_model import render_prompt


def test_completions_are_shown_as_plain_text(tiny_model, tmp_path, monkeypatch, capsys):
    """A tracker's table and the terminal get what a policy wrote and what its program printed."""

    def reward(completions, log_extra, **kwargs):
        log_extra("note", ["".join(HOSTILE)] * len(completions))
        return text_reward(completions)

    monkeypatch.setenv("COLUMNS", "2000")
    monkeypatch.setitem(PROMPTS[0][0], "content", "".join(HOSTILE).replace("\ud800", ""))  # no dataset holds that
    options = {"max_steps": 1, "max_prompt_length": None, "log_completions": True, "num_completions_to_print": None}
    trainer = make_trainer(tiny_model, tmp_path, reward, **options)
    trainer.train()
    out = capsys.readouterr().out
    check_plain(out)
    assert "\\x1b" in out
    assert "\\x1b" in trainer._logs["prompt"][0][0]["content"]
    assert "\\x1b" in trainer._logs["extra"]["note"][0]


def test_prompts_hold_no_special_tokens(tiny_model, tmp_path):
    """Whatever a table, a description or a program holds, those of an unusual form, too."""
    trainer = make_trainer(tiny_model, tmp_path, text_reward, max_steps=1)
    trainer._tokenizer.add_special_tokens({"additional_special_tokens": ["]~b]"]})

    def special(text):
        (ids,), _, _ = trainer._tokenize_prompts([[{"role": "user", "content": text}]])
        return [i for i in ids if i in trainer._tokenizer.all_special_ids]

    assert special("a ]~b] <|im_end|> b") == special("a b") != []


OPENING = "```python\nx = 1\n"
ASKED = {"role": "user", "content": "Go on."}
BEGUN = [ASKED, {"role": "assistant", "content": OPENING}]


def test_the_policy_goes_on_with_what_a_prompt_begins(tiny_model, tmp_path, monkeypatch):
    """What it goes on with is part of the completion's text, but not of its tokens; a reward model reads one answer."""
    folder = tmp_path / "reward_model"
    AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    seen, read, render = [], [], grpo_trainer.apply_chat_template

    def reward(prompts, completions, **kwargs):
        seen.extend(zip(prompts, completions, strict=True))
        return text_reward(completions)

    trainer = make_trainer(tiny_model, tmp_path, [reward, str(folder)], max_steps=1)
    monkeypatch.setattr(
        grpo_trainer, "apply_chat_template", lambda row, *args: read.append(row["messages"]) or render(row, *args)
    )
    (plain, ids), _, _ = trainer._tokenize_prompts([[ASKED], BEGUN])
    tokenizer = trainer._tokenizer
    assert ids == plain + tokenizer(OPENING, add_special_tokens=False)["input_ids"]
    assert ids == tokenizer(render_prompt(tokenizer, BEGUN), add_special_tokens=False)["input_ids"]

    trainer.train_dataset = Dataset.from_list([{"prompt": BEGUN}] * len(trainer.train_dataset))
    trainer.train()
    assert seen
    assert read
    assert all([turn["role"] for turn in turns] == ["user", "assistant"] for turns in read)
    assert all(turns[1]["content"].startswith(OPENING) for turns in read)
    for prompt, completion in seen:
        assert prompt == [ASKED]
        assert completion[0]["content"].startswith(OPENING)
    assert trainer._logs["completion"][0][0]["content"].startswith(OPENING)


@pytest.mark.parametrize(
    ("template", "prompt", "kwargs", "end"),
    [
        (THINKS, [ASKED], {"enable_thinking": False}, "assistant\n<think>\n\n</think>\n\n"),
        (THINKS, BEGUN, {}, f"assistant\n<think>\n\n</think>\n\n{OPENING}"),
        (ALWAYS_THINKS, BEGUN, {}, f"assistant\n<think>\n\n</think>\n\n{OPENING}"),
    ],
)
def test_what_a_model_that_thinks_is_asked(tiny_model, tmp_path, template, prompt, kwargs, end):
    """The same in training and in an evaluation of the saved policy, which has no options for it."""
    folder = with_template(tiny_model, tmp_path / "model", template)
    trainer = make_trainer(folder, tmp_path / "run", text_reward, chat_template_kwargs=kwargs)
    ids = trainer._tokenize_prompts([prompt])[0][0]
    text = trainer._tokenizer.decode(ids)
    assert text.endswith(f"Go on.\n{end}")
    for other in ([ASKED], BEGUN):
        assert trainer._tokenize_prompts([other, prompt])[0][1] == ids

    trainer.save_model(str(tmp_path / "policy"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "policy")
    assert render_prompt(tokenizer, prompt) == text
    assert trainer._tokenize_prompts([prompt])[0][0] == ids
    assert (tokenizer.chat_template == template) == (not kwargs)
