# Hands in a link to itself.
# ends: ok
# submission: none
os.symlink("submission.csv", "submission.csv")
