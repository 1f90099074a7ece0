# Takes its own folders away.
# ends: ok
# submission: none
own, parent = os.getcwd(), os.path.dirname(os.getcwd())
with open("submission.csv", "w") as file:
    file.write("x")
attempt("its folder", lambda: os.rename(own, own + "2"))
attempt("beside it", lambda: open(parent + "/new", "w"))
attempt("the executor's", lambda: open(os.path.dirname(parent) + "/new", "w"))
attempt("the executor's lock", lambda: open(os.path.dirname(parent) + "/lock").read())
os.chdir("/")
shutil.rmtree(own, ignore_errors=True)
