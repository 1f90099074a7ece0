def grade(submission, answers):
    truth = {row["id"]: row["value"] for row in answers}
    return sum(abs(row.value - truth[row.id]) for row in submission.itertuples()) / len(truth)
