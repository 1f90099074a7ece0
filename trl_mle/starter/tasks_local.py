"""Tasks of the small local competitions."""

from trl_mle.starter.tasks import NUMBERS, Part, Task, table


_GRID = "table.to_numpy().reshape(-1, 8, 8)"
LOCAL_TASKS = {
    "digits": (
        Task(
            "probabilities",
            "label",
            (
                Part("the pixels", "table", 12),
                Part("sums of rows", f"{_GRID}.sum(axis=2)", 2),
                Part("sums of columns", f"{_GRID}.sum(axis=1)", 2),
                Part("dark pixels", "table > 8", 2),
                Part("edges", f"np.diff({_GRID}).reshape(-1, 56)", 2),
            ),
            (table("id", "label"),),
        ),
    ),
    "breast-cancer": (Task("probability", "malignant", NUMBERS, (table("id", "malignant"),), column="malignant"),),
    "diabetes": (
        Task("number", "progression", NUMBERS, (table("id", "progression"),), column="progression", logs=True),
    ),
    "wine": (Task("class", "cultivar", NUMBERS, (table("id", "cultivar"),), column="cultivar"),),
}
