"""Whether the streamcal that this Python imports was installed, has its kernels in the given form, and works.

    python tools/check_installed.py compiled      or: uncompiled

Runs `streamcal doctor` and the first example of the README. It needs nothing but the installed package.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from streamcal.app.doctor import kernel_form
from streamcal.compiled import PACKAGE, in_source_tree

README = Path(__file__).parents[1] / "README.md"


def check(form: str) -> None:
    """Exit with a message unless the installation is as it should be."""
    subprocess.run([sys.executable, "-I", "-m", "streamcal", "doctor"], check=True)  # -I: not from the current folder
    if in_source_tree():
        raise SystemExit(f"{PACKAGE} is a source tree, not an installation")
    if kernel_form() != form:
        raise SystemExit(f"the kernels are {kernel_form()}, not {form}")
    print("the first example of the README prints")
    exec(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[0], {})


if __name__ == "__main__":
    check(sys.argv[1])
