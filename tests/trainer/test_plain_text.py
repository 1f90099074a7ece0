from support.hostile_texts import HOSTILE, check_plain
from support.toy_trainer import PROMPTS, make_trainer, text_reward


def test_completions_are_shown_as_plain_text(tiny_model, tmp_path, monkeypatch, capsys):
    """A tracker's table and the terminal get what a policy wrote and what its program printed."""

    def reward(completions, log_extra, **kwargs):
        log_extra("note", ["".join(HOSTILE)] * len(completions))
        return text_reward(completions)

    monkeypatch.setenv("COLUMNS", "2000")
    monkeypatch.setitem(PROMPTS[0][0], "content", "".join(HOSTILE).replace("\ud800", ""))  # no dataset holds that
    trainer = make_trainer(
        tiny_model,
        tmp_path,
        reward,
        max_steps=1,
        max_prompt_length=None,
        log_completions=True,
        num_completions_to_print=None,
    )
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
