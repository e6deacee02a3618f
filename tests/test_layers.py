"""Imports point down the list in `docs/architecture.md`: the syntax trees of the package are walked and keep it so."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamcal

PACKAGE = Path(streamcal.__file__).parent
TABLE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")

#: Where each host library may be imported; "lazily" means inside a function, by those who need it and no one else.
EDGES = {"datasets", "report", "plot", "river", "sklearn", "demo", "doctor", "cli"}
HOSTS = {
    "river": {"river", "demo"},
    "sklearn": {"sklearn", "datasets"},
    "matplotlib": {"plot"},
    "typer": {"cli"},
    "rich": EDGES,
    "pyarrow": {"stream"},
    "clarabel": {"solvers"},
}
LAZY_HOSTS = {"matplotlib", "pyarrow", "clarabel"}
#: Of those, the ones that rooms below the edges use.
LAZY_BELOW = {"pyarrow", "clarabel"}
#: What the rooms below the edges are built on.
FOUNDATIONS = {"numpy", "scipy", "sortedcontainers", "osqp", "cython"}


def rooms_in_order():
    """The rooms of the table of `docs/architecture.md`, from the foundation to the edges."""
    cells = re.findall(r"^\| (`.+?) \|", TABLE.split("## Rooms")[1].split("\n## ")[0], re.MULTILINE)
    return [name.removesuffix("/").removesuffix(".py") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


ROOMS = rooms_in_order()


def room_of(module):
    """`streamcal.statistics.grid` → `statistics`; the package itself → ""."""
    return [*module.split("."), ""][1]


def modules():
    """Every source of the package as (module name, syntax tree)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text(encoding="utf-8"), str(path))


def type_checking_only(tree):
    """The nodes under `if TYPE_CHECKING:`, which are never run."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(inner) for block in blocks for statement in block.body for inner in ast.walk(statement)}


def imports_of(tree):
    """(name of the module imported, whether at the top of the file) for each import statement."""
    skipped = type_checking_only(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lazy = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in lazy
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / inside.replace(".", "/")).with_suffix(".py").exists()
                yield inside if is_module or node.module == "streamcal" else node.module, id(node) not in lazy


ALL = [(module, imported, at_top) for module, tree in modules() for imported, at_top in imports_of(tree)]
OURS = [(module, imported) for module, imported, _ in ALL if imported.split(".")[0] == "streamcal"]
FOREIGN = [
    (module, imported.split(".")[0], at_top)
    for module, imported, at_top in ALL
    if imported.split(".")[0] not in ("streamcal", "__future__")
]


def test_the_list_of_rooms_is_complete():
    found = {room_of(module) for module, _ in modules()} - {"", "__main__"}
    assert found == set(ROOMS)
    assert len(ROOMS) == len(set(ROOMS))
    assert len(OURS) > 50, "the walk finds imports"


def test_imports_point_down_the_list():
    """A room imports itself and rooms listed before it. Kernels import nothing of ours, so everyone may import them."""
    rank = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"{module} imports {imported}"
        for module, imported in OURS
        if room_of(module) not in ("", "doctor")  # the front door; and the room that reports on the whole house
        and room_of(imported) != "kernels"
        and rank[room_of(module)] < rank.get(room_of(imported), len(rank))
    ]
    assert wrong == []


def test_kernels_import_nothing_of_ours_and_solvers_only_kernels_and_solvers():
    wrong = [
        f"{module} imports {imported}"
        for module, imported in OURS
        if (room_of(module) == "kernels" and room_of(imported) != "kernels")
        or (room_of(module) == "solvers" and room_of(imported) not in ("solvers", "kernels"))
    ]
    assert wrong == []


@pytest.mark.parametrize("host", HOSTS)
def test_host_libraries_are_imported_at_the_edges_only(host):
    users = {(module, at_top) for module, name, at_top in FOREIGN if name == host}
    assert users, "a host that no one imports needs no rule"
    assert {room_of(module) for module, _ in users} <= HOSTS[host], sorted(users)
    if host in LAZY_HOSTS:
        assert not any(at_top for _, at_top in users), sorted(users)


def test_pyarrow_and_clarabel_are_imported_in_one_place():
    for host, place in (("pyarrow", "streamcal.stream.formats"), ("clarabel", "streamcal.solvers.conic")):
        assert {module for module, name, _ in FOREIGN if name == host} == {place}


def test_below_the_edges_stand_numpy_and_its_like_alone():
    below = {(module, name) for module, name, _ in FOREIGN if room_of(module) not in EDGES}
    wrong = sorted(pair for pair in below if pair[1] not in sys.stdlib_module_names | FOUNDATIONS | LAZY_BELOW)
    assert wrong == []


def test_kernels_need_nothing_but_numpy_and_cython():
    used = {name for module, name, _ in FOREIGN if room_of(module) == "kernels"}
    assert used <= {"numpy", "cython", "math", "heapq", "types"}


def test_importing_the_package_loads_no_host_library():
    code = "import sys, streamcal; print(sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not set(HOSTS) & set(ast.literal_eval(loaded))


def test_the_package_has_every_name_it_offers():
    assert [name for name in streamcal.__all__ if not hasattr(streamcal, name)] == []
