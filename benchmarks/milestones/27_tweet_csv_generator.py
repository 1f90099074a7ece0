import csv
import sys
from collections import Counter


def read(path):
    """Yields the rows of a csv file, one at a time."""
    with open(path, newline="", encoding="utf-8") as handle:
        yield from csv.DictReader(handle)


def count_selected(rows):
    selected, seen = Counter(), Counter()
    for row in rows:
        words = row["text"].lower().split()
        seen.update((row["sentiment"], w) for w in words)
        selected.update((row["sentiment"], w) for w in row["selected_text"].lower().split())
    return selected, seen


selected, seen = count_selected(read("input/train.csv"))
print(len(seen), "word/sentiment pairs", file=sys.stderr)


def answer(row):
    if row["sentiment"] == "neutral":
        return row["text"]
    words = row["text"].split()
    keep = [w for w in words if selected[row["sentiment"], w.lower()] > 0.5 * seen[row["sentiment"], w.lower()]]
    return " ".join(keep) or row["text"]


with open("submission.csv", "w", newline="", encoding="utf-8") as handle:
    out = csv.writer(handle, quoting=csv.QUOTE_ALL)
    out.writerow(["textID", "selected_text"])
    for row in read("input/test.csv"):
        out.writerow([row["textID"], answer(row)])
