# Hands in a socket.
# ends: ok; landlock: error
# submission: none
import socket
socket.socket(socket.AF_UNIX).bind("submission.csv")
