# Reads address 0.
# ends: killed
ctypes.string_at(0)
