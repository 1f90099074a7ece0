# Connects to an abstract unix socket of the caller.
# ends: ok
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0@abstract@"))
