# A file of 16 TiB without contents, handed in.
# ends: error, killed
with open("submission.csv", "wb") as file:
    file.truncate(16 << 40)
