"""Multinomial naive Bayes over words, without scikit-learn."""
import csv
import math
import re
from collections import Counter, defaultdict

AUTHORS = ["EAP", "HPL", "MWS"]


def tokens(text):
    return re.findall(r"[a-z']+", text.lower())


with open("input/train.csv", newline="", encoding="utf-8") as f:
    rows = list(csv.DictReader(f))

counts = defaultdict(Counter)
docs = Counter()
for row in rows:
    docs[row["author"]] += 1
    counts[row["author"]].update(tokens(row["text"]))

vocabulary = set().union(*counts.values())
totals = {a: sum(counts[a].values()) + len(vocabulary) for a in AUTHORS}


def predict(text):
    logs = []
    for a in AUTHORS:
        s = math.log(docs[a] / len(rows))
        for w in tokens(text):
            s += math.log((counts[a][w] + 1) / totals[a])
        logs.append(s)
    top = max(logs)
    exps = [math.exp(v - top) for v in logs]
    return [e / sum(exps) for e in exps]


with open("input/test.csv", newline="", encoding="utf-8") as f:
    test_rows = list(csv.DictReader(f))

predictions = [predict(r["text"]) for r in test_rows]

with open("submission.csv", "w", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["id"] + AUTHORS)
    for r, p in zip(test_rows, predictions):
        writer.writerow([r["id"]] + p)
