"""The program: `device-plugin`, and `python -m device_plugin`."""
# ruff: noqa: PLC0415

import gc
import os
import sys


def main() -> int:
    """Run one command; returns its exit code."""
    for stream in range(3):  # else what is opened first takes its place, and is written to
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    gc.disable()  # nothing that is imported is garbage, and searching it takes a tenth of the time
    from device_plugin import cli

    gc.enable()
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
