# Hands in a pipe, at which a reader would wait for ever.
# ends: ok
# submission: none
os.mkfifo("submission.csv")
