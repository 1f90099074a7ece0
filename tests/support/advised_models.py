"""Models whose folder advises how to generate with them, as those on the Hub do."""

import json
import shutil
from pathlib import Path


# What model cards advise, and what else transformers knows
ADVICE = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1}
MORE_ADVICE = ADVICE | {"min_p": 0.3, "no_repeat_ngram_size": 2, "suppress_tokens": [*range(3, 100)]}


def advise(folder, advice=ADVICE):
    """Adds these settings to the `generation_config.json` of a model's folder."""
    path = Path(folder, "generation_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | advice))


def advised(model, folder):
    """A copy of a model, whose folder advises all of them."""
    advise(shutil.copytree(model, folder), MORE_ADVICE)
    return str(folder)
