# Maps 256 GiB and touches none of it.
# ends: out_of_memory
mmap.mmap(-1, 256 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
