# Hands in a directory.
# ends: ok
# submission: none
os.mkdir("submission.csv")
