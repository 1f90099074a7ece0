"""What the programs of the grammar must know about each competition: its files, its labels, and ways to make features."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Features:
    """
    One way to make the features `X` and `X_test` from the tables `train` and `test`. Of several lines the first is right
    and the others are mistakes.

    Args:
        words (`str`):
            Their name in the plan.
        X (`tuple[str, ...]`):
            Lines that make `X`.
        X_test (`tuple[str, ...]`):
            Lines that make `X_test`.
        before (`tuple[str, ...]`, *optional*):
            Lines of which one stands before both.
        imports (`tuple[str, ...]`, *optional*):
            Imports that they need, all right.
        weight (`float`, *optional*, defaults to `1`):
            How often they are chosen, relative to the others.
    """

    words: str
    X: tuple[str, ...]
    X_test: tuple[str, ...]
    before: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    weight: float = 1


@dataclass(frozen=True)
class Task:
    """
    What a program must know about a competition.

    Args:
        kind (`str`):
            What is predicted: `"probabilities"` (one column per class), `"probability"` (of the positive class),
            `"class"`, `"number"` or `"numbers"` (one column each).
        target (`str`):
            Column of train that is to be predicted.
        column (`str`, *optional*, defaults to `""`):
            Column of submission.csv to fill. Unused by `"probabilities"` and `"numbers"`, which fill all columns but the
            first.
        labels (`str`, *optional*):
            What is predicted, as an expression of `train`. Defaults to the column `target`.
        features (`tuple[Features, ...]`, *optional*):
            Ways to make features. Defaults to all columns but `id` and `target`.
        reader (`str`, *optional*, defaults to `"read_csv"`):
            Function of pandas that reads train and test.
        train (`str`, *optional*, defaults to `"train.csv"`):
            Name of the file with the labels.
        test (`str`, *optional*, defaults to `"test.csv"`):
            Name of the file to predict.
        sample (`str`, *optional*, defaults to `"sample_submission.csv"`):
            Name of the sample submission.
        answer (`str`, *optional*, defaults to `"pred"`):
            What is submitted, as an expression of `pred`. Unused by `"probabilities"` and `"probability"`.
        unfit (`tuple[str, ...]`, *optional*):
            Models that are of no use here, by their names in the plan: those that would be too slow, or invalid.
    """

    kind: Literal["probabilities", "probability", "class", "number", "numbers"]
    target: str
    column: str = ""
    labels: str = ""
    features: tuple[Features, ...] = ()
    reader: str = "read_csv"
    train: str = "train.csv"
    test: str = "test.csv"
    sample: str = "sample_submission.csv"
    answer: str = "pred"
    unfit: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.labels:
            object.__setattr__(self, "labels", f'train["{self.target}"]')
        if not self.features:
            object.__setattr__(self, "features", (columns("id", (self.target,)),))


def columns(row: str, targets: tuple[str, ...], useless: tuple[str, ...] = ()) -> Features:
    """All columns but these: the id, the targets, and others that are no numbers."""

    def listed(*names: str) -> str:
        return ", ".join(f'"{name}"' for name in names)

    return Features(
        "the features",
        X=(
            f"X = train.drop(columns=[{listed(row, *useless, *targets)}])",
            f"X = train.drop(columns=[{listed(*useless, *targets)}])",  # ids are no features, and test has none then
            f"X = train.drop(columns=[{listed(row, *useless)}])",  # the target is not in test
            f"X = train.drop(columns=[{listed(row, *useless, 'label' if 'target' in targets else 'target')}])",
            f"X = train.drop({listed(row, *useless, *targets)})",
        ),
        X_test=(
            f"X_test = test.drop(columns=[{listed(row, *useless)}])",
            "X_test = test",
            f"X_test = test.drop(columns=[{listed(row, *useless, *targets)}])",
            f"X_test = train.drop(columns=[{listed(row, *useless, *targets)}])",  # the wrong rows
        ),
    )


def derived(words: str, expression: str, imports: tuple[str, ...] = (), weight: float = 1) -> Features:
    """Features that are computed from a table, which the expression calls `train`."""
    of_test = expression.replace("train", "test")
    return Features(
        words,
        X=(
            f"X = {expression}",
            f"X = {of_test}",
            f"X = {expression[:-1]}",
            f"X = {expression.replace('train', 'data')}",
        ),
        X_test=(f"X_test = {of_test}", f"X_test = {expression}", f"X = {of_test}", ""),
        imports=imports,
        weight=weight,
    )


def counted_words(expression: str, settings: str = "max_features=100", weight: float = 1) -> Features:
    """The weights of the most frequent words of a text, which is an expression of `train`. They are few: fast, and weak."""
    of_test = expression.replace("train", "test")
    return Features(
        "characters" if "char" in settings else "words",
        before=(
            f"vec = TfidfVectorizer({settings})",
            f"vec = TfidfVectorizer({settings}",
            f"vec = TfidfVectorizer({settings.replace('max_features', 'features')})",
            "",
        ),
        X=(
            f"X = vec.fit_transform({expression}).toarray()",
            f"X = vec.transform({expression}).toarray()",
            f"X = vec.fit({expression}).toarray()",
            "X = vec.fit_transform(train).toarray()",
        ),
        X_test=(
            f"X_test = vec.transform({of_test}).toarray()",
            f"X_test = vec.fit_transform({of_test}).toarray()",  # other words
            f"X_test = vec.transform({expression}).toarray()",  # the wrong rows
            "X_test = vec.transform(test).toarray()",
            "",
        ),
        imports=("from sklearn.feature_extraction.text import TfidfVectorizer",),
        weight=weight,
    )


CHARACTERS = 'analyzer="char", ngram_range=(1, 2), max_features=100'
PAIR = 'train["anchor"] + " " + train["target"]'

LOCAL_TASKS = {
    "digits": Task("probabilities", "label"),
    "breast-cancer": Task("probability", "malignant", "malignant"),
    "diabetes": Task("number", "progression", "progression"),
    "wine": Task("class", "cultivar", "cultivar"),
}
MIRROR_TASKS = {
    "detecting-insults-in-social-commentary": Task(
        "probability",
        "Insult",
        "Insult",
        features=(
            counted_words('train["Comment"]', weight=3),
            counted_words('train["Comment"]', CHARACTERS),
            derived("the length", 'train[["Comment"]].map(len)'),
        ),
        sample="sample_submission_null.csv",
    ),
    "learning-agency-lab-automated-essay-scoring-2": Task(
        "class",
        "score",
        "score",
        features=(
            counted_words('train["full_text"]', weight=2),
            derived("the length", 'train[["full_text"]].map(len)'),
            derived("the number of words", 'train[["full_text"]].map(str.split).map(len)'),
        ),
    ),
    "random-acts-of-pizza": Task(
        "probability",
        "requester_received_pizza",
        "requester_received_pizza",
        features=(
            derived("the numbers", 'train[test.select_dtypes("number").columns]', weight=2),
            counted_words('train["request_text_edit_aware"]'),
            derived("the length", 'train[["request_text_edit_aware"]].map(len)'),
        ),
        reader="read_json",
        train="train.json",
        test="test.json",
        sample="sampleSubmission.csv",
    ),
    # How many words are marked; those at the end are taken.
    "tweet-sentiment-extraction": Task(
        "number",
        "selected_text",
        "selected_text",
        labels='train["selected_text"].str.split().map(len)',
        features=(
            derived("the length", 'train[["text"]].map(len)'),
            derived("the sentiment", 'pd.get_dummies(train["sentiment"])'),
            derived("both", 'pd.get_dummies(train["sentiment"]).assign(n=train["text"].map(len))', weight=2),
        ),
        answer='[" ".join(t.split()[-max(1, round(n)):]) for t, n in zip(test["text"], pred)]',
    ),
    "tabular-playground-series-may-2022": Task(
        "probability",
        "target",
        "target",
        features=(
            columns("id", ("target",), useless=("f_27",)),
            derived(
                "the features and the letters",
                'train[test.columns[1:]].assign(f_27=train["f_27"].map(set).map(len))',
            ),
        ),
    ),
    "tabular-playground-series-dec-2021": Task(
        "class", "Cover_Type", "Cover_Type", features=(columns("Id", ("Cover_Type",)),)
    ),
    "us-patent-phrase-to-phrase-matching": Task(
        "number",
        "score",
        "score",
        features=(
            counted_words(PAIR),
            counted_words(PAIR, CHARACTERS),
            derived(
                "shared words",
                'np.array([[len(set(a.split()) & set(b.split())), len(a), len(b)] for a, b in zip(train["anchor"], '
                'train["target"])])',
                imports=("import numpy as np",),
                weight=2,
            ),
        ),
        unfit=("a constant",),  # has no correlation
    ),
    "plant-pathology-2020-fgvc7": Task(
        "probabilities",
        "scab",
        labels="train.iloc[:, 1:].values.argmax(axis=1)",
        features=(
            derived(
                "4 x 4 pixels",
                '[np.ravel(Image.open(f"input/images/{i}.jpg").resize((4, 4))) for i in train["image_id"]]',
                imports=("import numpy as np", "from PIL import Image"),
            ),
            derived(
                "the colors",
                '[np.mean(Image.open(f"input/images/{i}.jpg"), (0, 1)) for i in train["image_id"]]',
                imports=("import numpy as np", "from PIL import Image"),
            ),
            derived(
                "the ranges of the colors",
                '[np.ptp(Image.open(f"input/images/{i}.jpg"), (0, 1)) for i in train["image_id"]]',
                imports=("import numpy as np", "from PIL import Image"),
            ),
        ),
    ),
    "leaf-classification": Task(
        "probabilities",
        "species",
        features=(
            columns("id", ("species",)),
            derived("the shape", 'train.filter(like="shape")'),
            derived("the margin", 'train.filter(like="margin")'),
        ),
        # 99 classes: minutes, or too few rows of each
        unfit=("bagged trees", "boosted stumps", "gradient boosting", "histogram boosting", "support vectors"),
    ),
    "nomad2018-predict-transparent-conductors": Task(
        "numbers",
        "bandgap_energy_ev",
        labels='train[["formation_energy_ev_natom", "bandgap_energy_ev"]]',
        features=(
            columns("id", ("formation_energy_ev_natom", "bandgap_energy_ev")),
            derived("the composition", 'train.filter(like="percent")'),
            derived("the lattice", 'train.filter(like="lattice")'),
        ),
        answer="pred.clip(0)",
    ),
    "spooky-author-identification": Task(
        "probabilities",
        "author",
        features=(
            counted_words('train["text"]', weight=3),
            counted_words('train["text"]', CHARACTERS),
            derived("the length", 'train[["text"]].map(len)'),
        ),
    ),
    "lmsys-chatbot-arena": Task(
        "probabilities",
        "winner_tie",
        labels='train.filter(like="winner").values.argmax(axis=1)',
        features=(
            derived("the lengths", 'train[["response_a", "response_b"]].map(len)', weight=2),
            counted_words('train["response_a"] + train["response_b"]'),
            derived(
                "the difference of the lengths",
                '(train["response_a"].map(len) - train["response_b"].map(len)).to_frame()',
            ),
        ),
    ),
}
TASKS = LOCAL_TASKS | {f"mirror:{name}": task for name, task in MIRROR_TASKS.items()}
