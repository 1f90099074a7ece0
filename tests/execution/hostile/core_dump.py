# Crashes with a core dump.
# ends: killed
os.abort()
