"""`python -m cluster up|down|image`."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from cluster import cluster, images, needs, places


def main() -> int:
    """Run one command; what stops it is one line on stderr."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build and start; KUBERNETES=1.36 for another version")
    commands.add_parser("down", help="stop, and leave nothing but the cache")
    image = commands.add_parser("image", help="the plugin's image, as an OCI archive")
    image.add_argument("archive", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "up":
            running = cluster.up(places.version())
            print(f"{running.program('kubectl')} --kubeconfig={running.kubeconfig}")
        elif arguments.command == "down":
            cluster.down()
        else:
            base = os.environ.get("BASE_IMAGE") or None
            needs.check_image(base)
            arguments.archive.parent.mkdir(parents=True, exist_ok=True)
            made = images.plugin(base)
            shutil.copyfile(made, arguments.archive)
            print(f"{arguments.archive}: {images.PLUGIN}, {made.stat().st_size >> 20} MiB")
    except places.CannotStart as why:
        print(f"e2e: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


sys.exit(main())
