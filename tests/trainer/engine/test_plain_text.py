import pytest
from datasets import Dataset
from support.hostile_texts import HOSTILE, check_plain
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
    for text in (out, trainer._logs["prompt"][0][0]["content"], trainer._logs["extra"]["note"][0]):
        assert "\\x1b" in text


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
    assert len(seen) == len(read) == 8
    for asked, answer in [*seen, *((turns[:1], turns[1:]) for turns in read)]:
        assert asked == [ASKED]
        assert [turn["role"] for turn in answer] == ["assistant"]
        assert answer[0]["content"].startswith(OPENING)
    assert trainer._logs["completion"][0][0]["content"].startswith(OPENING)


MESSAGES = "{%- for message in messages %}{{- message.role + '\\n' + message.content + '\\n' }}{%- endfor %}"
MESSAGES += "{%- if add_generation_prompt %}{{- 'assistant\\n' }}"
TOLD = "{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
# One thinks unless the template forbids it, as Qwen3 does, the other always, as DeepSeek-R1's distillations do
THINKS, ALWAYS_THINKS = (f"{MESSAGES}{end}{{%- endif %}}" for end in (TOLD, "{{- '<think>\\n' }}"))


@pytest.mark.parametrize(
    ("template", "prompt", "kwargs", "opening"),
    [
        (THINKS, [ASKED], {"enable_thinking": False}, ""),
        (THINKS, BEGUN, {}, OPENING),
        (ALWAYS_THINKS, BEGUN, {}, OPENING),
    ],
)
def test_what_a_model_that_thinks_is_asked(tiny_model, tmp_path, template, prompt, kwargs, opening):
    """The same in training and in an evaluation of the saved policy, which has no options for it."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = template
    trainer = make_trainer(
        tiny_model, tmp_path, text_reward, chat_template_kwargs=kwargs, trainer_kwargs={"processing_class": tokenizer}
    )
    ids = trainer._tokenize_prompts([prompt])[0][0]
    text = trainer._tokenizer.decode(ids)
    assert text.endswith(f"Go on.\nassistant\n<think>\n\n</think>\n\n{opening}")
    for other in ([ASKED], BEGUN):
        assert trainer._tokenize_prompts([other, prompt])[0][1] == ids
    trainer.save_model(str(tmp_path / "policy"))
    saved = AutoTokenizer.from_pretrained(tmp_path / "policy")
    assert render_prompt(saved, prompt) == text
    assert (saved.chat_template == template) == (not kwargs)
