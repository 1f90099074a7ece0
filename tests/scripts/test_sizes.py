"""How long a quickstart with a pretrained model takes, by what was measured."""

from dataclasses import replace

import pytest

from trl_mle.scripts.sizes import Sizes


SIZES = Sizes(
    model="models/small",
    on_gpu=False,
    dtype="bfloat16",
    num_samples=32,
    max_steps=24,
    num_generations=16,
    max_completion_length=200,
    micro_batch=8,
    prompt_tokens=400,
    prefill_s=20.0,
    token_s=0.5,
    train_s=0.01,
)


def test_a_broken_file_is_named(tmp_path):
    for text in ("", "{", '{"model": "x"}', "[]"):
        (tmp_path / "sizes.json").write_text(text)
        with pytest.raises(ValueError, match=r"sizes\.json is truncated, or of another version: delete it"):
            Sizes.read(tmp_path / "sizes.json")


def test_the_estimate_is_the_sum_of_its_parts():
    assert SIZES.evaluation_s == 2 * (20 + 200 * 0.5)  # 32 programs, 16 at a time
    assert SIZES.step_s == 20 + 200 * 0.5 + (2 * 400 + 16 * 200) * 0.01  # the prompt is computed once for 8 programs
    assert SIZES.estimate().splitlines() == [
        "about 1 h 12 min, and the time that programs run: 24 steps of about 3 min with",
        "16 programs each, at 32 tokens/s of sampling and 100 of training (measured)",
    ]


@pytest.mark.parametrize("factor", [0.01, 1, 9, 100])
def test_lines_fit_into_a_terminal(factor):
    sizes = replace(SIZES, num_generations=64, prefill_s=20 * factor, token_s=0.5 * factor, train_s=0.01 * factor)
    for line in sizes.estimate().splitlines():
        assert len(line) <= 80, line


def test_what_was_measured_is_read_again(tmp_path):
    SIZES.write(tmp_path / "new" / "sizes.json")
    assert Sizes.read(tmp_path / "new" / "sizes.json") == SIZES
