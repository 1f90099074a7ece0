# Files that are deleted while open still take room.
# ends: error; landlock: output_limit
files = []
for _ in range(20):
    files.append(open("x", "wb"))
    os.unlink("x")
    files[-1].write(b"x" * (60 << 20))
    files[-1].flush()
time.sleep(2)
print("LOOT", sum(os.fstat(file.fileno()).st_blocks * 512 for file in files))
