"""Imports point down the list in `docs/architecture.md`: the syntax trees of the package are walked and keep it so."""

import ast
import functools
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamcal

PACKAGE = Path(streamcal.__file__).parent
TABLE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")

#: Where each host library may be imported; "lazily" means inside a function, by those who need it and no one else.
EDGES = {"datasets", "river", "sklearn", "app", "serving", "spark"}
HOSTS = {
    "river": {"river", "app"},
    "sklearn": {"sklearn", "datasets"},
    "matplotlib": {"app"},
    "typer": {"app"},
    "rich": EDGES,
    "pyarrow": {"stream"},
    "clarabel": {"solvers"},
    "onnx": {"maps"},
    "starlette": {"serving"},
    "uvicorn": {"serving"},
    "prometheus_client": {"serving"},
    "pyspark": {"spark"},
}
LAZY_HOSTS = {"matplotlib", "clarabel", "onnx"}
#: Those that rooms below the edges use, where they are needed.
LAZY_BELOW = {"pyarrow", "clarabel", "onnx"}
#: What the rooms below the edges are built on.
FOUNDATIONS = {"numpy", "scipy", "sortedcontainers", "osqp", "msgspec", "cython"}


def rooms_in_order():
    """Return the rooms of the table of `docs/architecture.md`, from the foundation to the edges."""
    cells = re.findall(r"^\| (`.+?) \|", TABLE.split("## Packages")[1].split("\n## ")[0], re.MULTILINE)
    return [name.removesuffix("/").removesuffix(".py") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


ROOMS = rooms_in_order()


def room_of(module):
    """`streamcal.statistics.grid` → `statistics`; the package itself → ""."""
    return [*module.split("."), ""][1]


@functools.cache
def modules():
    """Return the path of every source of the package by module name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def tree_of(module):
    return ast.parse(modules()[module].read_text(encoding="utf-8"), str(modules()[module]))


def statements(block, at_top=True):
    """(statement, whether it is at the top of the file) for all that may be run: not for those `if TYPE_CHECKING:`."""
    for node in block:
        yield node, at_top
        inside = at_top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        unseen = at_top and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if not (unseen and field == "body"):
                yield from statements(getattr(node, field, []), inside)


def imports_of(tree):
    """(name of the module imported, whether at the top of the file) for each import statement."""
    for node, at_top in statements(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, at_top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / inside.replace(".", "/")).with_suffix(".py").exists()
                yield inside if is_module or node.module == "streamcal" else node.module, at_top


@functools.cache  # not when the file is imported, which every process of a run does
def all_imports():
    """Return (module, name of the module imported, whether at the top of the file), of the whole package."""
    return [(module, imported, at_top) for module in modules() for imported, at_top in imports_of(tree_of(module))]


def ours():
    return [(module, imported) for module, imported, _ in all_imports() if imported.split(".")[0] == "streamcal"]


def foreign():
    """Return (module, library, whether at the top of the file)."""
    named = [(module, imported.split(".")[0], at_top) for module, imported, at_top in all_imports()]
    return [row for row in named if row[1] not in ("streamcal", "__future__")]


def test_the_list_of_rooms_is_complete():
    found = {room_of(module) for module in modules()} - {"", "__main__"}
    assert found == set(ROOMS)
    assert len(ROOMS) == len(set(ROOMS))
    assert len(ours()) > 50, "the walk finds imports"


def test_imports_point_down_the_list():
    """A room imports itself and rooms listed before it."""
    rank = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"{module} imports {imported}"
        for module, imported in ours()
        if module not in ("streamcal.app.doctor", "streamcal.serving.openapi")  # they say the version of the package
        and room_of(module) not in ("", "__main__")  # the public names, and the command line
        and rank[room_of(module)] < rank.get(room_of(imported), len(rank))
    ]
    assert wrong == []


def test_the_reader_of_maps_imports_nothing_of_ours():
    """It is copied alone."""
    assert [imported for module, imported in ours() if module == "streamcal.maps.portable"] == []


def test_kernels_import_nothing_of_ours_and_solvers_only_kernels_and_solvers():
    wrong = [
        f"{module} imports {imported}"
        for module, imported in ours()
        if (room_of(module) == "kernels" and room_of(imported) != "kernels")
        or (room_of(module) == "solvers" and room_of(imported) not in ("solvers", "kernels"))
    ]
    assert wrong == []


@pytest.mark.parametrize("host", HOSTS)
def test_host_libraries_are_imported_at_the_edges_only(host):
    users = {(module, at_top) for module, name, at_top in foreign() if name == host}
    assert users, "a host that no one imports needs no rule"
    assert {room_of(module) for module, _ in users} <= HOSTS[host], sorted(users)
    if host in LAZY_HOSTS:
        assert not any(at_top for _, at_top in users), sorted(users)


def test_pyarrow_and_clarabel_are_imported_in_one_place():
    for host, place in (("pyarrow", "streamcal.stream.arrow"), ("clarabel", "streamcal.solvers.conic")):
        assert {module for module, name, _ in foreign() if name == host} == {place}


def test_below_the_edges_stand_numpy_and_its_like_alone():
    below = {(module, name) for module, name, _ in foreign() if room_of(module) not in EDGES}
    wrong = sorted(pair for pair in below if pair[1] not in sys.stdlib_module_names | FOUNDATIONS | LAZY_BELOW)
    assert wrong == []


def test_kernels_need_nothing_but_numpy_and_cython():
    used = {name for module, name, _ in foreign() if re.fullmatch(r"streamcal\.kernels\.\w+\.\w+", module)}
    assert used, "kernels are found"
    assert used <= {"numpy", "cython", "math", "heapq", "struct", "types"}


def loaded_by(statement):
    """Return the modules in a new interpreter after `statement`."""
    code = f"import sys\n{statement}\nprint(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(run.stdout))


#: Each takes longer to import than all of streamcal.
HEAVY = {*HOSTS, "scipy", "osqp", "pandas", "pydantic"}


def test_importing_the_package_loads_no_method_and_no_library():
    loaded = loaded_by("import streamcal")
    assert not {name.split(".")[0] for name in loaded} & {*HEAVY, "numpy"}
    assert {name for name in loaded if name.startswith("streamcal")} == {
        "streamcal",
        "streamcal.lazy",
        "streamcal.compiled",
        "streamcal.kernels",
        "streamcal.calibrators",
        "streamcal.calibrators.registry",
    }


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "name", ["VennAbers", "OnlinePlatt", "Bernstein", "Auto", "Window", "load_map", "load", "plot"]
)
def test_a_method_loads_no_library_that_it_does_not_need(name):
    assert not {module.split(".")[0] for module in loaded_by(f"from streamcal import {name}")} & HEAVY


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.csv", "score,label,text\n" + '0.2,0,a\n0.7,1,"b, c"\n' * 5),
        pytest.param(
            *("in.jsonl", '{"score": 0, "label": 0}\n{"score": 0.7, "label": 1, "text": "a"}\n' * 5),
            marks=[pytest.mark.full, pytest.mark.in_every_share],
        ),
    ],
)
def test_a_run_imports_no_other_command_and_nothing_that_it_was_not_asked_for(tmp_path, name, text):
    """Comparisons, reports, `serve`, late labels and segments, each with what it needs of Python's library."""
    source = tmp_path / name
    source.write_text(text, encoding="ascii")
    command = f"['run', {str(source)!r}, '--score', 'score', '--label', 'label', '--method', 'ops', "
    command += f"'--out', {str(tmp_path / 'out')!r} + {source.suffix!r}, '--state', {str(tmp_path / 'state.json')!r}]"
    said = tmp_path / "said.txt"
    loaded = loaded_by(
        "import contextlib\n"
        "from streamcal.app.cli import app\n"
        f"with open({str(said)!r}, 'w') as said, contextlib.redirect_stdout(said):\n"
        f"    app({command}, standalone_mode=False)\n"
    )
    assert "10 rows (5 positive)" in said.read_text(encoding="utf8")
    unused = {"compare_report", "figures", "html_report", "report_data", "run_report", "segment_data"}
    assert not {f"streamcal.app.{name}" for name in unused} & loaded
    unused = {"by_segment", "comparing", "entrants", "frames", "impressions", "replay", "sources"}
    assert not {f"streamcal.stream.{name}" for name in unused} & loaded
    unused = {"journal", "label_join", "level_store", "segmented", "shadow", "versions"}
    assert not {f"streamcal.live.{name}" for name in unused} & loaded
    assert not {"multiprocessing", "sqlite3", "scipy", "osqp", "river", "pandas", "asyncio"} & loaded
    assert "streamcal.calibrators.online_newton" in loaded or "streamcal.calibrators.online_platt" in loaded
    assert not {"streamcal.calibrators.auto", "streamcal.kernels.tree.hull_tree"} & loaded


LAZY_PACKAGES = [
    "streamcal",
    "streamcal.fusion",
    "streamcal.live",
    "streamcal.metrics",
    "streamcal.multiclass",
    "streamcal.regression",
    "streamcal.spark",
]
#: Those that `dir(streamcal)` shows too once they were imported.
LAZY_NAMES = [package.partition(".")[2] for package in LAZY_PACKAGES]


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_what_is_imported_on_first_access_is_what_type_checkers_see(package):
    """The imports under TYPE_CHECKING and the names of `lazy.attributes` are two lists of the same."""
    if package == "streamcal.spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed")
    module = importlib.import_module(package)
    tree = tree_of(package)
    block = next(node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    seen = {alias.asname: statement.module for statement in block.body for alias in statement.names}
    assert None not in seen, "without `A as A` strict type checkers see no export, since `__all__` is made when it runs"
    here = {name for name in module.__all__ if name in vars(sys.modules[package])} - set(seen)
    assert set(module.__all__) == set(seen) | here
    assert here <= {"SAVED", "METHODS", "REGISTRY", "__version__"}
    for name, home in seen.items():
        place = importlib.import_module(home)
        assert getattr(module, name) is getattr(place, name, sys.modules.get(f"{home}.{name}")), name
    assert set(module.__all__) <= set(dir(module)) <= {*module.__all__, *(name for name in LAZY_NAMES if name)}
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_inheritance_is_at_most_four_of_our_classes_deep():
    spark = importlib.util.find_spec("pyspark") is not None
    found = [vars(importlib.import_module(module)).values() for module in modules() if spark or ".spark." not in module]
    for one in {one for values in found for one in values if isinstance(one, type)}:
        assert sum(base.__module__.startswith("streamcal.") for base in one.__mro__) <= 4, one.__mro__


def test_dir_shows_what_is_public():
    code = "import streamcal; print(dir(streamcal)); import streamcal.live; print(dir(streamcal))"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    before, after = (set(ast.literal_eval(line)) for line in run.stdout.splitlines())
    assert before == set(streamcal.__all__)
    assert after == {*before, "live"}
