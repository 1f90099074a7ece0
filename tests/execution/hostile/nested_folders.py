# 100,000 folders, one in the other: whatever cleans up must not recurse.
# ends: ok, error; landlock: ok, error, output_limit
for _ in range(100_000):
    os.mkdir("d")
    os.chdir("d")
