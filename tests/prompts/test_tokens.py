import random
import string
from pathlib import Path

import pytest
import sklearn.datasets
from transformers import Qwen2Tokenizer

from trl_mle.prompts import estimate_tokens
from trl_mle.prompts.tokens import shorten


ROOT = Path(__file__).parents[2]


def _texts(folder, pattern):
    return [path.read_text(encoding="utf-8")[:20_000] for path in sorted(Path(folder).glob(pattern))]


def _random(alphabet, length, seed):
    rng = random.Random(seed)
    return "\n".join(",".join("".join(rng.choices(alphabet, k=length)) for _ in range(4)) for _ in range(100))


@pytest.fixture(scope="module")
def corpus():
    """Texts of many kinds, by kind: of this repository, of the pinned scikit-learn, and made here."""
    data = Path(sklearn.datasets.__file__).parent
    rng = random.Random(0)
    rows = [f"{rng.getrandbits(40):010x},{rng.random():.5f},id{rng.randint(0, 99999)}" for _ in range(300)]
    return {
        "prose": _texts(data / "descr", "*.rst"),
        "code": _texts(ROOT / "benchmarks" / "milestones", "*.py"),
        "tables": _texts(data / "data", "*.csv"),
        "names of columns": ["\n".join(f"requester_number_of_{word}_at_retrieval, Soil_Type{i}"
                             for i, word in enumerate(["posts", "comments", "days", "upvotes"] * 20))],
        "ids and numbers": ["\n".join(rows)],
        "small letters": [_random(string.ascii_lowercase, 12, 1)],
        "base64": [_random(string.ascii_letters + string.digits + "+/", 40, 3)],
        "other scripts": ["这是一个比赛。预测每个样本的类别。" * 20, "Größe, naïve façade, Übermaß: café! " * 20, "Предсказание 🙂 " * 20],
    }  # fmt: skip


def test_is_an_upper_bound(corpus):
    """
    Byte-level BPE with Qwen2's own splitting, trained on texts of the same kinds. Its vocabulary is a tenth of
    Qwen2.5's, so it needs more tokens: an upper bound for it is also one for Qwen2.5.
    """
    texts = [text for kind in corpus.values() for text in kind]
    tokenizer = Qwen2Tokenizer().train_new_from_iterator(texts, vocab_size=16_000, show_progress=False)
    assert 10_000 < len(tokenizer) < 151_643 / 5
    for kind, examples in corpus.items():
        for text in examples:
            assert len(tokenizer(text)["input_ids"]) <= estimate_tokens(text), kind


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("0.125", 5), (" the house", 1 + 2), ("of_species", 1 + 2), ("é", 2), ("\ud800", 3)]
)
def test_counts(text, tokens):
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("text", ["One. Two three four. Five six seven.", "x" * 300, "这" * 100])
@pytest.mark.parametrize("limit", [4, 20, 100])
def test_shorten(text, limit):
    short = shorten(text, limit)
    assert estimate_tokens(short) <= limit
    assert text.startswith(short.removesuffix("…"))
    assert (short == text) == (estimate_tokens(text) <= limit)
    assert shorten("One two three. Four five six seven eight nine ten.", 10) == "One two three."
