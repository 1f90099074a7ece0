import importlib
import json

import pandas as pd


def read_csv(*args, **kwargs):
    try:
        return pd.read_csv(*args, **{"float_precision": "round_trip", **kwargs})
    except pd.errors.EmptyDataError:
        return pd.DataFrame()


def load_answers(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return read_csv(path)


def import_fn(name):
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)
