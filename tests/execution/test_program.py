"""The milestones that a program with prints is credited with for its output."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from trl_mle.execution.program import InstrumentedProgram


NONCE = "0123456789abcdef"
SOURCE = """
import a
print("@ milestone: imports", flush=True)
def load(path):
    text = '''
no end of a block: this only asks for less
'''
    x = 1
    print("@ milestone: train_data", flush=True)
    if x:
        y = 1
        print("@ milestone: test_data", flush=True)
    else:
        z = 1
        print("@ milestone: model_built", flush=True)
load("train.csv")
print("@ milestone: submission", flush=True)
""".replace("@", NONCE)
PLACED = ("imports", "train_data", "test_data", "model_built", "submission")
PROGRAM = InstrumentedProgram(SOURCE, "", PLACED, NONCE)


def reached(*printed: str, program: InstrumentedProgram = PROGRAM) -> set[str]:
    return program.reached("".join(f"{NONCE} milestone: {milestone}\n" for milestone in printed))


def test_a_marker_counts_behind_those_that_must_have_come_before():
    assert reached("submission", "predictions", "test_data") == set()
    assert reached("imports", "submission") == {"imports", "submission"}  # `load` may not have been called
    assert reached("imports", "test_data") == {"imports"}
    assert reached("imports", "train_data", "model_built") == {"imports", "train_data", "model_built"}
    assert reached("imports", "train_data", "model_built", "test_data") == set(PLACED) - {"submission"}
    assert reached("imports", "predictions") == {"imports"}  # which was not placed
    one = InstrumentedProgram(SOURCE, "", ("train_data",), NONCE)
    assert reached("submission", "train_data", program=one) == {"train_data"}


BLOCKS = st.recursive(
    st.just(["x"]),
    lambda inner: st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["if r():", "for _ in range(2):", "while r():", "try:", "def f():"]), inner),
            st.sampled_from(PLACED),
        ),
        max_size=5,
    ).map(lambda items: ["x", *items]),
    max_leaves=30,
)


def lines(block, indentation=""):
    behind = {"try:": ["except KeyError:", "  pass"], "def f():": ["f()"]}
    for item in block:
        if isinstance(item, tuple):
            yield indentation + item[0]
            yield from lines(item[1], indentation + "  ")
            yield from (indentation + line for line in behind.get(item[0], ()))
        elif item == "x":
            yield f"{indentation}x()"
        else:
            yield f'{indentation}print("{NONCE} milestone: {item}", flush=True)'


@given(BLOCKS, st.randoms(use_true_random=False))
def test_whatever_a_program_really_prints_counts(block, random):
    """Programs of nested blocks, with random conditions and failures."""

    def x():
        if random.random() < 0.05:
            raise KeyError

    source, printed = "\n".join(lines(block)), []
    names = {"x": x, "r": lambda: random.random() < 0.5, "print": lambda text, flush: printed.append(text)}
    with contextlib.suppress(KeyError):
        exec(source, names)
    program = InstrumentedProgram(source, "", PLACED, NONCE)
    assert program.reached("\n".join(printed)) == {text.split()[-1] for text in printed}
