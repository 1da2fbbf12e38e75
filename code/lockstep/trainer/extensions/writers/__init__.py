"""Writers: other ways than the core's to get a checkpoint's files written."""

METADATA = ".metadata"  # the file by which DCP's checkpoints are known
