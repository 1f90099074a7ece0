# Maps 256 GiB and touches none of it.
# ends: out_of_memory
import mmap
mmap.mmap(-1, 256 << 30)
