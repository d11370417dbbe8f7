"""What a command's exit code says."""

OK = 0
FAILED = 1  # stderr says why
BAD_CONFIG = 2  # the config or the command line is wrong
