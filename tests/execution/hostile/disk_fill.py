# Writes until the disk is full. Where it is not a disk of its own, it is ended.
# ends: error; landlock: output_limit
for i in range(10**6):
    with open(f"{i}.bin", "wb") as file:
        file.write(b"x" * (1 << 20))
    if i == 256:
        time.sleep(10)
