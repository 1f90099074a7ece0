# Reads address 0.
# ends: killed
import ctypes
ctypes.string_at(0)
