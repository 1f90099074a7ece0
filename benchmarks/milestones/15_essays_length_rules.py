import polars as pl

# Longer essays get better grades. The cuts were read off a plot.
CUTS = [1200, 1600, 2100, 2800, 3700]

train = pl.read_csv("input/train.csv")
train = train.with_columns(pl.col("full_text").str.len_chars().alias("n"))
print(train.group_by("score").agg(pl.col("n").median()).sort("score"))

test = pl.read_csv("input/test.csv")
test = test.with_columns(pl.col("full_text").str.len_chars().alias("n"))

test = test.with_columns(
    (1 + sum((pl.col("n") > c).cast(pl.Int64) for c in CUTS)).alias("score")
)
test.select("essay_id", "score").write_csv("submission.csv")
