"""`python -m device_plugin` is `device-plugin`."""

import sys

from device_plugin.cli import main

sys.exit(main())
