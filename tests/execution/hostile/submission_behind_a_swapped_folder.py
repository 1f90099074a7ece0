# Puts a link to a closed folder, in which a submission.csv lies, in the place of its working folder.
# ends: ok
# submission: none
own = os.getcwd()
attempt("rename", lambda: os.rename(own, own + "-old"))
attempt("rename to the neighbour folder", lambda: os.rename(own, os.environ["TMPDIR"] + "/old"))
attempt("link", lambda: os.symlink("@closed@", own))
