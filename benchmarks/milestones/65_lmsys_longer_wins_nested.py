import csv
import sys

csv.field_size_limit(sys.maxsize)


def main(args=sys.argv[1:]):
    folder = args[0] if args else "input"

    def probabilities(a, b):
        """The longer answer wins, unless both are about equally long."""
        if abs(a - b) < 0.1 * max(a, b, 1):
            return 0.3, 0.3, 0.4
        return (0.5, 0.25, 0.25) if a > b else (0.25, 0.5, 0.25)

    with open(f"{folder}/test.csv", newline="", encoding="utf8") as source, open("submission.csv", "w") as target:
        writer = csv.DictWriter(target, ["id", "winner_model_a", "winner_model_b", "winner_tie"])
        writer.writeheader()
        for row in csv.DictReader(source):
            a, b, tie = probabilities(len(row["response_a"]), len(row["response_b"]))
            writer.writerow({"id": row["id"], "winner_model_a": a, "winner_model_b": b, "winner_tie": tie})


main()
