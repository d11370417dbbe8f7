"""The root folder of the base image: Debian's Python and the libraries that it loads, no shell.

apt resolves the dependencies against an empty list of installed packages, with the sources that
this machine is set up with; dpkg's scripts do not run, as none of the packages needs them here.
"""

import re
import shutil
from pathlib import Path

from cluster.commands import run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What the resolver adds for modules that a daemon has no use for, or for package management.
_LEFT_OUT = (
    *("dpkg", "tar", "readline-common", "libreadline", "libncurses", "libtinfo", "libsqlite3"),
    *("libdb5", "libgdbm", "libnsl", "libtirpc", "libgssapi", "libkrb5", "libk5", "libkeyutils"),
    *("libcom-err", "libselinux", "libpcre2", "libacl", "libmd0", "libzstd", "perl"),
)
_NOT_NEEDED = (
    *("usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/man", "usr/share/lintian"),
    *("usr/share/binfmts", "usr/share/applications", "usr/share/pixmaps", "usr/lib/*/gconv"),
    *("usr/lib/python3*/test", "usr/lib/python3*/pydoc_data", "usr/lib/python3*/idlelib"),
    *("usr/lib/python3*/lib2to3", "usr/lib/python3*/distutils", "usr/lib/python3*/ensurepip"),
)


def version() -> str:
    """Of Debian's Python: 3.11."""
    said = run(["apt-cache", "depends", "python3"])
    found = re.search(r"Depends: python(3\.\d+)\b", said)
    assert found is not None, said
    return found[1]


def make(work: Path) -> Path:
    """The root folder, under `work`."""
    root = work / "root"
    for package in _packages(work):
        run(["dpkg-deb", "--extract", str(package), str(root)])
    for pattern in _NOT_NEEDED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (root / "usr/bin/python3").symlink_to(f"python{version()}")
    for name in ("dev", "proc", "sys", "tmp", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnobody:x:65534:\n")
    run(
        [
            "chroot",
            str(root),
            "/usr/bin/python3",
            "-m",
            "compileall",
            "-q",
            f"/usr/lib/python{version()}",
        ]
    )
    return root


def _packages(work: Path) -> list[Path]:
    (work / "debs" / "partial").mkdir(parents=True)
    (work / "status").touch()
    python = version()
    wanted = [f"python{python}-minimal", f"libpython{python}-stdlib", "libstdc++6"]
    settings = {
        "Dir::State::status": work / "status",
        "Dir::Cache::archives": work / "debs",
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "root",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    command = ["apt-get", "-y", "--no-install-recommends", "--download-only", *options, "install"]
    run([*command, *wanted])
    return [d for d in sorted((work / "debs").glob("*.deb")) if not d.name.startswith(_LEFT_OUT)]
