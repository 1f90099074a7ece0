# Hands in more than may be handed in.
# ends: ok
# submission: none
open("submission.csv", "wb").write(b"x" * (32 << 20))
