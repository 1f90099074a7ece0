# Makes empty files until there can be no more.
# ends: error, timeout; landlock: output_limit, timeout
for i in range(10**9):
    os.close(os.open(f"tiny-{i}", os.O_CREAT | os.O_WRONLY))
