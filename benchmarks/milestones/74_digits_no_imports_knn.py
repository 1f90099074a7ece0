# k nearest neighbours with nothing but the language


def table(path):
    with open(path) as f:
        head = f.readline().strip().split(",")
        return [dict(zip(head, line.strip().split(","))) for line in f]


def vector(row):
    return [int(row["pixel_%d" % i]) for i in range(64)]


train = [(vector(r), int(r["label"])) for r in table("input/train.csv")]
test = [(r["id"], vector(r)) for r in table("input/test.csv")]


def classify(v, k=7):
    near = sorted((sum((a - b) ** 2 for a, b in zip(v, w)), label) for w, label in train)[:k]
    votes = [0.2] * 10
    for _, label in near:
        votes[label] += 1
    return [x / sum(votes) for x in votes]


lines = ["id," + ",".join("digit_%d" % d for d in range(10))]
for name, v in test:
    lines.append(name + "," + ",".join("%.10f" % p for p in classify(v)))

with open("submission.csv", "w") as f:
    f.write("\n".join(lines))
