# Hands in a socket.
# ends: ok; landlock: error
# submission: none
socket.socket(socket.AF_UNIX).bind("submission.csv")
