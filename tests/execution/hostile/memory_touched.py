# Takes memory in small pieces and writes to it.
# ends: out_of_memory
hog = []
while True:
    hog.append(b"x" * (16 << 20))
