"""The environment of programs: its variables and packages."""

from trl_mle.execution.program import OPTIONAL, REQUIRED
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.tier import Tier


# Imported once by the warm parent; other imports count towards the program's time.
# matplotlib first: its search for fonts uses a thread, which ends while the others are imported
PACKAGES = [
    "matplotlib.font_manager", "numpy", "pandas", "scipy.sparse", "scipy.stats", "scipy.optimize",
    "sklearn.base", "sklearn.calibration", "sklearn.cluster", "sklearn.compose", "sklearn.decomposition",
    "sklearn.discriminant_analysis", "sklearn.dummy", "sklearn.ensemble", "sklearn.feature_extraction.text",
    "sklearn.feature_selection", "sklearn.gaussian_process", "sklearn.impute", "sklearn.linear_model",
    "sklearn.metrics", "sklearn.model_selection", "sklearn.multiclass", "sklearn.multioutput", "sklearn.naive_bayes",
    "sklearn.neighbors", "sklearn.neural_network", "sklearn.pipeline", "sklearn.preprocessing", "sklearn.svm",
    "sklearn.tree",
]  # fmt: skip
SLOW_IMPORTS = ["torch", "torchvision", "transformers"]  # they take ten seconds
# Proves that programs have the packages that every prompt lists, also if the warm parent has imported them: prints
# names, and versions of the required ones
IMPORTS = f"""
import importlib, importlib.util
for name in {REQUIRED}:
    try:
        module = importlib.import_module(name)
        open(module.__file__, "rb").close()
    except Exception as error:
        raise SystemExit(f"{{name}}: {{type(error).__name__}}: {{' '.join(str(error).split())}}")
    print(name, module.__version__)
for name in {OPTIONAL}:
    try:
        open(importlib.util.find_spec(name).origin, "rb").close()
        if name not in {SLOW_IMPORTS}:
            importlib.import_module(name)
    except Exception:
        continue
    print(name)
"""


# There is no network, so libraries that would retry for up to a minute should fail at once
OFFLINE = {
    "HF_HUB_OFFLINE": "1",  # for transformers and datasets, too
    "PIP_NO_INDEX": "1",
    "PIP_RETRIES": "0",  # where a URL is given
    "UV_OFFLINE": "1",
    "WANDB_MODE": "disabled",
}


def environment_variables(threads: int, python: Interpreter, tier: Tier) -> dict[str, str]:
    """The whole environment of a program, except its home."""
    numeric = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM")
    # joblib looks once for semaphores, in the warm parent, which Landlock does not restrict; without them, or with
    # this, `n_jobs` has no effect. On a single core, processes would only take seconds to start
    has_jobs = threads > 1 and not tier.landlock_abi
    return {
        "PATH": f"{python.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108
        "TMPDIR": "/tmp",  # noqa: S108
        "USER": "solution",
        "LOGNAME": "solution",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",  # equal programs do equal things
        "PYTHONDONTWRITEBYTECODE": "1",
        **OFFLINE,
        **dict(python.variables),
        "LOKY_MAX_CPU_COUNT": str(threads),
        "JOBLIB_MULTIPROCESSING": str(int(has_jobs)),
        "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's thread: only a process with one can be forked
        **{f"{name}_NUM_THREADS": str(threads) for name in numeric},
    }
