"""Takes out of the environment what a user may have set for other runs, and gives the tests data of their own."""

import os
import tempfile


# Of this package, and of the libraries and launchers under it
PREFIXES = (
    "ACCELERATE_",
    "HF_",
    "HUGGINGFACE_",
    "MLEBENCH_",
    "OPENAI_",
    "TRACKIO_",
    "TRANSFORMERS_",
    "TRL_",
    "WANDB_",
)
NAMES = (
    *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "LANG", "LC_ALL", "TZ", "XDG_CACHE_HOME"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"),
)

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the environment of the process that starts them
    for name in list(os.environ):
        if name.startswith(PREFIXES) or name in NAMES:
            del os.environ[name]
    cache = tempfile.TemporaryDirectory(prefix="trl_mle-tests-")
    os.environ["TRL_MLE_CACHE"] = cache.name
