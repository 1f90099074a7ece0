"""Models and feature transforms that a program of the grammar can choose."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Estimator:
    """
    A model that a program can choose.

    Args:
        words (`str`):
            Its name in the plan.
        name (`str`):
            Its class in scikit-learn. A final `*` stands for `Classifier` or `Regressor`.
        module (`str`):
            Its module in scikit-learn.
        weight (`float`):
            Relative frequency of choosing it.
        settings (`dict[str, tuple]`, *optional*):
            Values to choose from, by keyword. The first keyword is always set, the others half of the time each.
    """

    words: str
    name: str
    module: str
    weight: float
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)


_FOREST: dict[str, tuple[object, ...]] = {
    "n_estimators": (10, 20, 50, 100, 200, 400),
    "max_depth": (2, 4, 8, 16),
    "min_samples_leaf": (2, 3, 5, 10, 30),
    "max_features": (0.1, 0.2, 0.4, 0.7),
}
# Most models are weak and fast, so that there is something to find. The best models (boosting with hundreds of trees
# and a small learning rate, large forests, support vectors, networks) are rare and take 10 to 1000 times as long as a
# small tree. Boosted stumps are slow and poor.
_COMMON = (
    Estimator("a constant", "Dummy*", "dummy", 9),
    Estimator(
        "a small tree",
        "DecisionTree*",
        "tree",
        24,
        {"max_depth": (1, 2, 3, 4, 5, 6, 8), "min_samples_leaf": (5, 20, 50)},
    ),
    Estimator("the nearest neighbour", "KNeighbors*", "neighbors", 7, {"n_neighbors": (1, 1, 1, 2, 5, 20)}),
    Estimator(
        "boosted stumps",
        "AdaBoost*",
        "ensemble",
        7,
        {"n_estimators": (50, 100, 200, 300), "learning_rate": (0.1, 0.3)},
    ),
    Estimator("bagged trees", "Bagging*", "ensemble", 4, {"n_estimators": (10, 20, 50, 100)}),
    Estimator("a random forest", "RandomForest*", "ensemble", 9, _FOREST),
    Estimator("extra trees", "ExtraTrees*", "ensemble", 6, _FOREST),
    Estimator(
        "gradient boosting",
        "GradientBoosting*",
        "ensemble",
        3,
        {
            "n_estimators": (5, 10, 20, 50, 100, 200, 400),
            "max_depth": (1, 2, 3, 4, 6),
            "learning_rate": (0.03, 0.06, 0.3, 1.0),
            "subsample": (0.4, 0.6, 0.8),
            "max_features": (0.1, 0.3, 0.5),
        },
    ),
    Estimator(
        "histogram boosting",
        "HistGradientBoosting*",
        "ensemble",
        4,
        {
            "max_iter": (5, 10, 30, 60, 120, 240),
            "max_leaf_nodes": (3, 5, 8, 16),
            "learning_rate": (0.03, 0.06, 0.2, 1.0),
            "l2_regularization": (1, 5, 20),
            "max_features": (0.2, 0.4),
        },
    ),
    Estimator(
        "a neural network",
        "MLP*",
        "neural_network",
        4,
        {
            "hidden_layer_sizes": (8, 32, 64, 128),
            "max_iter": (10, 20, 50, 100, 200),
            "alpha": (0.01, 0.1, 1),
            "learning_rate_init": (0.0003, 0.003, 0.01),
        },
    ),
)
CLASSIFIERS = (
    *_COMMON,
    Estimator("naive Bayes", "GaussianNB", "naive_bayes", 12, {"var_smoothing": (1e-9, 1e-4, 1e-2)}),
    Estimator("naive Bayes of what occurs", "BernoulliNB", "naive_bayes", 4, {"alpha": (0.01, 0.1, 1)}),
    Estimator(
        "logistic regression",
        "LogisticRegression",
        "linear_model",
        11,
        {
            "C": (0.0001, 0.001, 0.01, 0.02, 0.1, 0.5, 2, 4, 10, 30),
            "max_iter": (1, 2, 3, 5, 50, 300),
            "class_weight": ('"balanced"',),
        },
    ),
    Estimator(
        "support vectors",
        "SVC",
        "svm",
        4,
        {"C": (0.1, 1, 3, 10, 30), "gamma": (0.001, 0.01, 0.1), "kernel": ('"linear"',)},
    ),
)
REGRESSORS = (
    *_COMMON,
    Estimator("least squares", "LinearRegression", "linear_model", 8),
    Estimator("ridge regression", "Ridge", "linear_model", 8, {"alpha": (0.1, 1, 3, 10, 100, 1000, 10000)}),
    Estimator(
        "support vectors",
        "SVR",
        "svm",
        6,
        {"C": (0.1, 1, 3, 10, 30), "epsilon": (0.01, 0.03), "gamma": (0.001, 0.01, 0.1)},
    ),
)

# Models that predict only one column
SINGLE_OUTPUT = ("AdaBoostRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor", "SVR")


@dataclass(frozen=True)
class Transform:
    """
    A transform of the features before the model.

    Args:
        words (`str`):
            Its name in the plan; empty for no transform.
        code (`str`):
            Code that creates it.
        module (`str`):
            Its module in scikit-learn.
        weight (`float`):
            Relative frequency of choosing it.
    """

    words: str
    code: str
    module: str
    weight: float


TRANSFORMS = (
    Transform("", "", "", 13),
    Transform("scaled features", "StandardScaler()", "preprocessing", 4),
    Transform("features between 0 and 1", "MinMaxScaler()", "preprocessing", 2),
    Transform("ranked features", "QuantileTransformer(n_quantiles=100)", "preprocessing", 1),
    Transform("principal components", "PCA(n_components=0.9)", "decomposition", 1),
)
