# Folders that nobody may enter or change.
# ends: ok
os.makedirs("a/b/c")
open("a/b/c/file", "w").close()
for path in ("a/b/c", "a/b", "a"):
    os.chmod(path, 0)
os.mkdir("e", 0)
