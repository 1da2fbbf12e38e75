"""Writers: other ways than the core's to get a checkpoint's files written."""
