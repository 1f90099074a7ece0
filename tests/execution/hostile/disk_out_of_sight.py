# Files in a folder that nobody can list.
# ends: error; landlock: output_limit
os.mkdir("folder", 0o300)
for i in range(20):
    with open(f"folder/{i}", "wb") as file:
        file.write(b"x" * (60 << 20))
time.sleep(2)
print("LOOT", sum(os.stat(f"folder/{i}").st_blocks * 512 for i in range(20)))
