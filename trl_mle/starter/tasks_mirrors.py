"""Tasks of the mirrors. Parts made for a single task are chosen rarely, and help most."""

from typing import Any

from trl_mle.starter.tasks import NUMBERS, TEXT, Part, Task, table


_TFIDF = ("from sklearn.feature_extraction.text import TfidfVectorizer",)
_COUNTS = ("from sklearn.feature_extraction.text import CountVectorizer",)


def columns(words: str, like: str, weight: float = 1) -> Part:
    """Selects the columns whose names match a pattern."""
    return Part(words, f'both.filter(like="{like}")', weight)


def of_images(words: str, values: str, weight: float = 1, **options: Any) -> Part:
    """Numbers computed from each image `i`, an array of shape `(height, width, 3)`."""
    return Part(words, f"np.array([{values} for i in images])", weight, **options)


def of_answers(words: str, value: str, weight: float = 1, **options: Any) -> Part:
    """The difference between the two answers of an expression of the question `q` and an answer."""
    value = f"{value.format(r='a')} - {value.format(r='b')}"
    rows = 'both["prompt"], both["response_a"], both["response_b"]'
    return Part(words, f"np.array([[{value}] for q, a, b in zip({rows})])", weight, **options)


def neighbours(words: str, rows: str, weight: float) -> Part:
    """The word at an offset."""
    settings: dict[str, tuple[object, ...]] = {"max_features": (50, 100, 200, 500)}
    code = f"CountVectorizer({{settings}}).fit_transform({rows}).toarray()"
    return Part(words, code, weight, settings, imports=_COUNTS)


_COMMENT = 'text = both["Comment"]'

_ESSAY_PARTS = (
    *TEXT,
    Part("the paragraphs", 'text.str.count("\\n\\n").to_frame()'),
    Part("the sentences", 'text.str.count(r"[.,!?](?:\\s|$)").to_frame()'),
    Part("the commas", '(text.str.count(", ") / text.str.count("[.!?]").clip(1)).to_frame()'),
    Part("the different words", "np.array([[len(set(t.split())) / len(t.split())] for t in text])"),
    Part(
        "the rare words",
        "np.array([[np.mean([counts[w] < 25 for w in t.split()])] for t in text])",
        before="counts = Counter(w for t in text for w in t.split())",
        imports=("from collections import Counter",),
    ),
)
_ESSAY_BASES = ('text = both["full_text"]', 'text = both["full_text"]', 'text = both["full_text"].str.lower()')

_SHARES = 'both.filter(like="percent").to_numpy()'
_VECTORS = 'both.filter(like="vector")'

# The first quantiles belong to dark spots, or to spots without red.
_QUANTILES = "[0.5, 2, 10, 50, 90, 98, 99.5]"
_IMAGES = 'images = [np.asarray(Image.open(f"input/images/{i}.jpg")).astype(float) for i in both["image_id"]]'
_LEAVES = _IMAGES.replace(".astype", "[8:56, 12:84].astype")  # without the surroundings
_SPOTS = """\
def spots(v, n):
    return np.percentile(uniform_filter(v - uniform_filter(v, 21), n), [0.5, 2, 10, 50, 90, 98, 99.5])"""
_FILTER = ("from scipy.ndimage import uniform_filter",)

# Features of a pair of words from anchor and target use other rows only: those of nine of ten folds.
_PAIRS = """\
pairs = both.assign(row=range(len(both)), a=both["anchor"].str.split(), b=both["target"].str.split())
pairs = pairs.explode("a").explode("b").assign(fold=lambda t: t["row"] % 10)
def known(*keys):
    n = pairs.groupby([*keys])["score"].transform
    m = pairs.groupby([*keys, "fold"])["score"].transform
    seen = (n("sum") - m("sum")) / (n("count") - m("count"))
    return pairs.assign(seen=seen).groupby("row")["seen"].agg(["mean", "max", "min"]).fillna(0.3)"""

_TOPICAL = """\
def topical(q, r):
    words = set(re.findall("[a-z]{4,}", q.lower()))
    return sum(any(w in words for w in s.lower().split()) for s in r.split("."))"""

# One row per word
_SPLIT = """\
def split(t):
    return t.assign(word=t["text"].str.split()).explode("word", ignore_index=True)
train, test = split(train), split(test)
at = train.groupby("textID").cumcount()
start = [len(t[:t.find(s)].split()) for t, s in zip(train["text"], train["selected_text"])]"""
_BEST = """\
def best(p):
    s = np.append(0, np.cumsum(p - 0.5))
    return slice(*max((s[j] - s[i], i, j) for j in range(1, len(s)) for i in range(j))[1:])"""

MIRROR_TASKS = {
    "detecting-insults-in-social-commentary": (
        Task(
            "probability",
            "Insult",
            TEXT,
            (
                _COMMENT,
                _COMMENT,
                f'{_COMMENT}.str.replace("\\\\n", " ")',
                f'{_COMMENT}.str.lower().str.replace("0", "o").str.replace("1", "i")',
            ),
            column="Insult",
            sample="sample_submission_null.csv",
        ),
    ),
    "learning-agency-lab-automated-essay-scoring-2": (
        Task("class", "score", _ESSAY_PARTS, _ESSAY_BASES, column="score", weight=2),
        Task(
            "number",
            "score",
            _ESSAY_PARTS,
            _ESSAY_BASES,
            column="score",
            answers=(
                "pred.round().clip(1, 6).astype(int)",
                "pred.round().clip(1, 6).astype(int)",
                "np.sort(y)[(pred.argsort().argsort() * len(y) / len(pred)).astype(int)]",  # same class counts as in train
            ),
        ),
    ),
    "random-acts-of-pizza": (
        Task(
            "probability",
            "requester_received_pizza",
            (
                *NUMBERS,
                *TEXT,
                Part("the subreddits", 'both[["requester_subreddits_at_request"]].map(len)'),
                Part(
                    "words of the title",
                    'TfidfVectorizer({settings}).fit_transform(both["request_title"]).toarray()',
                    settings={"max_features": (50, 100, 500), "ngram_range": ((1, 2),)},
                    imports=_TFIDF,
                ),
            ),
            (
                'text, table = both["request_text_edit_aware"], both[test.select_dtypes("number").columns]',
                'text, table = both["request_text_edit_aware"], both[test.select_dtypes("number").columns[:-2]]',
            ),
            column="requester_received_pizza",
            labels='train["requester_received_pizza"].astype(int)',
            reader="read_json",
            train="train.json",
            test="test.json",
            sample="sampleSubmission.csv",
        ),
    ),
    "tweet-sentiment-extraction": (
        # How many words are selected, at the end or at the beginning
        Task(
            "number",
            "selected_text",
            (
                Part("the length", 'both[["text"]].map(len)', 4),
                Part("the sentiment", 'pd.get_dummies(both["sentiment"])', 4),
                Part("the number of words", "text.str.split().map(len).to_frame()", 2),
                *TEXT[:3],
            ),
            ('text = both["text"]',),
            column="selected_text",
            labels='train["selected_text"].str.split().map(len)',
            answers=(
                '[" ".join(t.split()[-max(1, round(n)):]) for t, n in zip(test["text"], pred)]',
                '[" ".join(t.split()[:max(1, round(n))]) for t, n in zip(test["text"], pred)]',
            ),
            weight=6,
        ),
        # Which words are selected: the answer is the run of words with the highest odds
        Task(
            "probability",
            "selected_text",
            (
                Part("the sentiment", 'pd.get_dummies(both["sentiment"])', 2),
                neighbours("the words", "words", 4),
                neighbours("the words before", 'words.shift(1, fill_value="")', 2),
                neighbours("the words after", 'words.shift(-1, fill_value="")', 2),
                Part("the place", 'both.groupby("textID").cumcount().to_frame()', 2),
            ),
            (
                'words = both["sentiment"] + "_" + both["word"]',
                'words = both["sentiment"] + "_" + both["word"].str.lower().str.strip(".,!?:()")',
            ),
            column="selected_text",
            labels='((at >= start) & (at < start + train["selected_text"].str.split().map(len))).astype(int)',
            answers=(
                '[" ".join(t["word"].values[best(t["p"].values)]) for _, t in '
                'test.assign(p=pred[:, 1]).groupby("textID", sort=False)]',
            ),
            prepare=f"{_SPLIT}\n{_BEST}",
            # takes minutes with this many rows
            unfit=("support vectors", "the nearest neighbour", "gradient boosting", "boosted stumps"),
        ),
    ),
    "tabular-playground-series-may-2022": (
        Task(
            "probability",
            "target",
            (
                *NUMBERS,
                Part("the letters", 'np.array([[ord(c) for c in s] for s in both["f_27"]])'),
                Part("the different letters", 'both["f_27"].map(set).map(len).to_frame()'),
                Part(
                    "products",
                    'PolynomialFeatures(interaction_only=True, include_bias=False).fit_transform(table.select_dtypes("float"))',
                    imports=("from sklearn.preprocessing import PolynomialFeatures",),
                ),
                Part(
                    "the best products",
                    "products[:, np.argsort(corr)[-{settings}:]]",
                    settings={"": (2, 4, 6, 10, 20)},
                    before="""\
floats = table.select_dtypes("float").to_numpy()
products = np.array([np.tanh(a) * np.tanh(b) for a, b in combinations(floats.T / floats.std(axis=0)[:, None], 2)]).T
corr = [abs(np.corrcoef(p[:len(train)], train["target"])[0, 1]) for p in products.T]""",
                    imports=("from itertools import combinations",),
                ),
            ),
            (table("id", "target", "f_27"),),
            column="target",
        ),
    ),
    "tabular-playground-series-dec-2021": (
        Task(
            "class",
            "Cover_Type",
            (
                Part("the features", "table", 8),
                Part("the numbers", "table.iloc[:, :10]", 2),
                Part("the soils", 'table.filter(like="Soil")', 2),
                Part("the areas", 'table.filter(like="Wilderness")', 2),
                Part(
                    "the height above water",
                    'table.eval("Elevation - Vertical_Distance_To_Hydrology").to_frame()',
                ),
                Part(
                    "the way up from water",
                    'table.eval("Elevation - Vertical_Distance_To_Hydrology - 0.2 * Horizontal_Distance_To_Hydrology")'
                    ".to_frame()",
                ),
                Part("the northness", 'np.cos(np.deg2rad(table[["Aspect", "Slope"]]))'),
                Part(
                    "the remoteness",
                    'table.eval("Horizontal_Distance_To_Roadways * Horizontal_Distance_To_Fire_Points").to_frame()',
                ),
            ),
            (table("Id", "Cover_Type"),),
            column="Cover_Type",
        ),
    ),
    "us-patent-phrase-to-phrase-matching": (
        Task(
            "number",
            "score",
            (
                Part(
                    "the lengths",
                    "np.array([[len(a), len(b), len(a.split()), len(b.split())] for a, b in texts])",
                    4,
                ),
                Part(
                    "shared words",
                    "np.array([[len(set(a.split()) & set(b.split())), len(set(a.split()) | set(b.split()))] for a, b in texts])",
                    3,
                ),
                Part(
                    "shared ends",
                    "np.array([[a.split()[0] in b, a.split()[-1] in b, a.split()[0] == b.split()[0]] for a, b in texts])",
                ),
                Part("the contexts", 'pd.get_dummies(both["context"])', 2),
                *TEXT[:3],
                Part("what pairs of words score", 'known("context", "a", "b")', before=_PAIRS),
                Part("what words score", 'known("context", "b")', before=_PAIRS),
                Part(
                    "the words at home",
                    "np.array([[np.mean([(c, w) in home for w in t.replace('s ', ' ').split()])] "
                    'for c, t in zip(both["context"], both["target"])])',
                    before='home = set(zip(both["context"], both["anchor"].str.split().str[-1]))',
                ),
            ),
            ('texts, text = list(zip(both["anchor"], both["target"])), both["anchor"] + " " + both["target"]',),
            column="score",
            unfit=("a constant",),  # its correlation is undefined
        ),
    ),
    "plant-pathology-2020-fgvc7": (
        Task(
            "probabilities",
            "scab",
            (
                of_images("16 pixels", "i[::16, ::24].ravel()", 3),
                of_images("the colors", "i.mean((0, 1))", 4),
                of_images("the ranges of the colors", "np.ptp(i, (0, 1))", 3),
                of_images("the deviations of the colors", "i.std((0, 1))", 2),
                of_images("how red", f"np.percentile(i[..., 0] / i[..., 1].clip(10), {_QUANTILES})"),
                of_images("how light", f"np.percentile(i.sum(2) / np.median(i.sum(2)), {_QUANTILES})"),
                *(
                    of_images(
                        f"{color} spots",
                        f"spots({values}, {{settings}})",
                        settings={"": (3, 5, 9)},
                        before=_SPOTS,
                        imports=_FILTER,
                    )
                    for color, values in (("red", "i[..., 0] / i[..., 1].clip(10)"), ("dark", "i.sum(2)"))
                ),
            ),
            (_IMAGES, _IMAGES, _LEAVES),
            labels="train.iloc[:, 1:].values.argmax(axis=1)",
            imports=("from PIL import Image",),
        ),
    ),
    "leaf-classification": (
        Task(
            "probabilities",
            "species",
            (
                *(
                    columns(f"the {what}", what, weight)
                    for what, weight in (("margin", 2), ("shape", 6), ("texture", 2))
                ),
                *(
                    Part(f"the roots of the {what}", f'both.filter(like="{what}") ** 0.5')
                    for what in ("margin", "texture")
                ),
                Part(
                    "the logarithms of the shape",
                    'np.log(both.filter(like="shape") + {settings})',
                    settings={"": (1e-5, 1e-4, 1e-3)},
                ),
                Part("sums of the shape", 'both.filter(like="shape").agg(["sum", "std", "max"], axis=1)', 2),
            ),
            # 99 classes: takes minutes, or has too few rows per class
            unfit=("bagged trees", "boosted stumps", "gradient boosting", "histogram boosting", "support vectors"),
        ),
    ),
    "nomad2018-predict-transparent-conductors": (
        Task(
            "numbers",
            "bandgap_energy_ev",
            (
                Part("the features", "table", 4),
                columns("the composition", "percent", 3),
                columns("the lattice", "lattice", 3),
                Part("the groups", 'pd.get_dummies(both["spacegroup"])'),
                Part("the mixing", f"({_SHARES} * (1 - {_SHARES})).sum(axis=1)[:, None]"),
                Part("the radius", f"{_SHARES} @ [[0.54], [0.62], [0.80]]"),
                Part("the gap of the mixture", f"{_SHARES} @ [[4.6], [2.9], [1.3]]"),
                Part("the volume", f"{_VECTORS}.prod(axis=1).to_frame()"),
                Part(
                    "the strains",
                    f'{_VECTORS} / both.groupby("spacegroup")[list({_VECTORS})].transform("mean")',
                ),
                Part(
                    "the swelling",
                    f'({_VECTORS} / both.groupby("spacegroup")[list({_VECTORS})].transform("mean")).mean(axis=1).to_frame() '
                    f"/ ({_SHARES} @ [[0.54], [0.62], [0.80]])",
                ),
            ),
            (table("id", "formation_energy_ev_natom", "bandgap_energy_ev"),),
            labels='train[["formation_energy_ev_natom", "bandgap_energy_ev"]]',
            answers=("pred.clip(0)",),
            logs=True,
        ),
    ),
    "spooky-author-identification": (
        Task(
            "probabilities",
            "author",
            TEXT,
            ('text = both["text"]', 'text = both["text"]', 'text = both["text"].str.lower()'),
        ),
    ),
    "lmsys-chatbot-arena": (
        Task(
            "probabilities",
            "winner_tie",
            (
                of_answers("the lengths", "len({r})", 6),
                of_answers("the lists", '{r}.count("- ")', 2),
                of_answers("the sentences", '{r}.count(".")', 2),
                of_answers("the questions", '{r}.count("?")', 2),
                of_answers("refusals", "bool(re.search('sorry|unable|language model', {r}))", imports=("import re",)),
                of_answers("what is topical", "topical(q, {r})", before=_TOPICAL, imports=("import re",)),
                of_answers(
                    "the share that is topical",
                    'topical(q, {r}) / (1 + {r}.count("."))',
                    before=_TOPICAL,
                    imports=("import re",),
                ),
                Part(
                    "words",
                    'TfidfVectorizer({settings}).fit_transform(both["response_a"]).toarray()',
                    2,
                    {"max_features": (20, 50, 100, 200)},
                    imports=_TFIDF,
                ),
                Part(
                    "the absolute difference of the lengths",
                    'np.array([[abs(len(a) - len(b))] for a, b in zip(both["response_a"], both["response_b"])])',
                ),
            ),
            labels='train.filter(like="winner").values.argmax(axis=1)',
        ),
    ),
}
