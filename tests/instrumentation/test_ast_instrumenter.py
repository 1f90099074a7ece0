import pytest
from sklearn.utils import all_estimators
from support.programs import PROGRAMS, UNTOUCHED

from trl_mle.execution.program import split_lines
from trl_mle.instrumentation import MILESTONES, AstInstrumenter, insert_prints, verify


NONCE = "5e1f0c9a7b3d2468"


@pytest.mark.parametrize("name", PROGRAMS)
def test_milestones(name):
    source, expected = PROGRAMS[name]
    program = AstInstrumenter().instrument(source)
    assert program.milestones == tuple(m for m in MILESTONES if m in expected)
    assert program.original == source
    verify(program.original, program.source, program.nonce)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_runs_as_it_is(name):
    program = AstInstrumenter().instrument(UNTOUCHED[name])
    assert program.source == program.original == UNTOUCHED[name]
    assert program.milestones == program.inserted_lines == ()
    assert program.reached(f"{program.nonce} milestone: imports") == set()


def following(source, milestone):
    """The line before the print of a milestone, prints left out."""
    lines = split_lines(AstInstrumenter().instrument(source, NONCE).source)
    mark = next(i for i, line in enumerate(lines) if f"milestone: {milestone}" in line)
    assert lines[mark].startswith("print(")  # outside of any loop
    return next(line.strip() for line in reversed(lines[:mark]) if NONCE not in line)


LAST_PARTS = {  # programs by milestone, with its print in the place of `@`
    "model_built": [
        "from keras import Sequential, layers\nm = Sequential()\nm.add(layers.Dense(1))\nm.add(layers.Dense(2))\n@x = 1\n",
        "from torchvision import models\nm = models.resnet18()\nm.fc = new()\n@x = 1\n",
        "from sklearn.svm import SVC\nm = SVC()\n@m.fit(t, t.y)\nm.note = 1\n",
    ],
    "model_trained": [
        "import torch\ndef epoch(o):\n    for b in c:\n        o.step()\nfor e in d:\n    epoch(torch.optim.Adam([]))\n@x = 1\n"
    ],
    "train_data": [
        "import cv2\nimport pandas as pd\ntrain, test = pd.read_csv('train.csv'), pd.read_csv('test.csv')\ndef read(path):\n"
        "    return cv2.imread(path)\nX = train.path.apply(read)\n@T = test.path.apply(read)\n"
    ],
    "imports": ["import os\nx = os.getpid()\ndef f(): pass\nimport sys\n@y = 1\n"],
}


@pytest.mark.parametrize("milestone", LAST_PARTS)
def test_a_step_is_done_with_its_last_part(milestone):
    for source in LAST_PARTS[milestone]:
        assert following(source.replace("@", ""), milestone) == source.partition("@")[0].splitlines()[-1].strip()


READ = "import pandas as pd\ntrain, test = pd.read_csv('train.csv'), pd.read_csv('test.csv')\n"


@pytest.mark.parametrize(
    ("source", "predicted"),
    [
        (
            "ids = test[['id']].copy()\nprint(SVC().fit(train, y).predict(train))\nids.to_csv('submission.csv')\n",
            False,
        ),
        ("ids = test.loc[:, ['id']].copy()\nids['y'] = train['y'].mean()\nids.to_csv('submission.csv')\n", True),
        ("ids = test[['id']].copy()\nids['y'] = SVC().fit(train, y).predict(test)\n", True),
    ],
)
def test_the_table_of_ids_that_a_prompt_begins_holds_no_predictions(source, predicted):
    program = AstInstrumenter().instrument(f"{READ}from sklearn.svm import SVC\n{source}")
    assert ("predictions" in program.milestones) == predicted


FIT = "m.fit(X, y)"


@pytest.mark.parametrize(
    ("code", "trains"),
    [
        ("def f():\n    if c:\n        return None\n    return {fit}\nx = f()\n", False),
        ("def f():\n    try:\n        return {fit}\n    except E:\n        pass\nx = f()\n", False),
        ("def f():\n    if c:\n        raise E\n    with w:\n        return {fit}\nx = f()\n", True),
        ("def f(a):\n    if c:\n        return None\n    a.fit(X, y)\n    return 1\nf(0)\nx = f(m)\n", False),
        ("import sys\ndef f():\n    try:\n        return {fit}\n    except E:\n        sys.exit(1)\nx = f()\n", True),
        ("def f():\n    while True:\n        try:\n            return {fit}\n        except E:\n            pass\nx = f()\n", False),
        # A loop does not complete after a `return`
        ("def f():\n    if c:\n        return None\n    for a in [m, 0]:\n        a.fit(X, y)\nf()\n", True),
        ("x = c and {fit}\n", False),
        ("for i in r:\n    c and optimizer.step()\n", False),
    ],
)  # fmt: skip
def test_a_step_that_may_be_left_out_is_none(code, trains):
    """A milestone would otherwise be printed where a model may be `None`."""
    source = f"from sklearn.svm import SVC\nm = SVC()\n{code.format(fit=FIT)}"
    assert ("model_trained" in AstInstrumenter().instrument(source).milestones) == trains


@pytest.mark.parametrize(
    "example",
    [
        "image = cv2.imread(glob.glob('images/*.jpg')[0])\n",
        "with Image.open('images/Test_0.jpg') as image:\n    print(image.size)\n",
        "def read(path):\n    return cv2.imread(path)\nshape = read(f'images/{train.id[0]}.jpg').shape\n",
    ],
)
def test_an_example_image_is_not_the_data(example):
    tables = "import cv2, glob\nimport pandas as pd\nfrom PIL import Image\ntrain = pd.read_csv('train.csv')\ntest = pd.read_csv('test.csv')\n"
    assert following(tables + example, "train_data") == "train = pd.read_csv('train.csv')"
    assert following(tables + example, "test_data") == "test = pd.read_csv('test.csv')"
    images = "x = [cv2.imread(path) for path in train.path]\ny = list(map(cv2.imread, test.path))\n"
    assert following(tables + images + example, "train_data") == "x = [cv2.imread(path) for path in train.path]"


def test_all_estimators_of_scikit_learn_are_models():
    for kind in ["classifier", "regressor"]:
        for name, cls in all_estimators(type_filter=kind):
            module = cls.__module__.rsplit("._", 1)[0]
            program = AstInstrumenter().instrument(f"from {module} import {name}\nm = {name}()\n")
            assert "model_built" in program.milestones, (module, name)
    for name, cls in all_estimators(type_filter="transformer"):
        if hasattr(cls, "predict"):
            continue
        module = cls.__module__.rsplit("._", 1)[0]
        if name.endswith(("Classifier", "Regressor")) or module == "sklearn.ensemble":
            continue
        program = AstInstrumenter().instrument(f"from {module} import {name}\nm = {name}()\nm.fit(1)\n")
        assert program.milestones == ("imports",), (module, name)


# Inserting into unusual sources


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        ("x = 1", 1, "x = 1\n@\n"),
        ("x = 1\r\ny = 2\r\n", 1, "x = 1\r\n@\ny = 2\r\n"),
        ("x = 1\ry = 2\r", 1, "x = 1\r@\ny = 2\r"),
        ("\ufeffx = 1\n", 1, "\ufeffx = 1\n@\n"),
        ("x = '''a\n\x0c\x85b'''\ny = 2\n", 2, "x = '''a\n\x0c\x85b'''\n@\ny = 2\n"),
        ("a = (\n 1); b = 2\n", 1, "a = (\n 1); b = 2\n"),
        ("a = 1 + \\\n  2\nb = 1\n", 1, "a = 1 + \\\n  2\n@\nb = 1\n"),
        ("a = 1; \\\nb = 2\n", 1, "a = 1; \\\nb = 2\n"),
        ("if a: b = a\n", 1, "if a: b = a\n"),
        ("if a:\n\tb = f(\n1)\n", 3, "if a:\n\tb = f(\n1)\n\t@\n"),
        ("'doc'\nfrom __future__ import annotations\n", 1, "'doc'\nfrom __future__ import annotations\n"),
        ("#!x\n# -*- coding: latin-1 -*-\nx = 'é'\n", 3, "#!x\n# -*- coding: latin-1 -*-\nx = 'é'\n@\n"),
        ("def f():\n    return 1\n", 2, "def f():\n    return 1\n"),
        ("match a:\n    case 1:\n        b\n    case _: c\n", 3, "match a:\n    case 1:\n        b\n        @\n    case _: c\n"),
        ("if a:\n    b\n\n\n# end\n", 5, "if a:\n    b\n    @\n\n\n# end\n"),
    ],
)  # fmt: skip
def test_insert(source, line, expected):
    program = insert_prints(source, [(line, "train_data")], NONCE)
    assert program.source == expected.replace("@\n", f'print("{NONCE} milestone: train_data", flush=True)\n')
    verify(source, program.source, NONCE)
