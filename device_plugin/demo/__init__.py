"""`device-plugin demo`: what the daemon does, behind an embedded kubelet, live."""

from pathlib import Path

from device_plugin import log


def run(path: Path | None, *, dra: bool) -> int:
    """Show everything once, with the built-in config or the one at `path`; dra: by claims."""
    log.configure("error", as_json=False)
    if dra:
        from device_plugin.demo import claims  # noqa: PLC0415 - it needs an extra

        return claims.run()
    from device_plugin.demo import lists  # noqa: PLC0415

    return lists.run(path)
