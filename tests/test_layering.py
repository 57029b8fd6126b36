"""The architecture: data flows one way, no import cycles, short functions, cheap imports, and tests that mirror src."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import chimera_lab
import chimera_ssm

LIBRARY, LABORATORY = (Path(package.__file__).parent for package in (chimera_ssm, chimera_lab))
ORDER = {
    LIBRARY: [
        "version",
        "errors",
        "integrations",
        "pixels",
        "cpu",
        "gpu",
        "topology",
        "adjacency",
        "ops",
        "nn",
        "mamba",
        "models",
    ],
    LABORATORY: ["baselines", "data", "training", "recipes", "planning", "studies", "show", "predict", "cli"],
}
#: Folders of `ops` with one algorithm each; `spmm` is what they share.
ALGORITHMS = ["scan", "sweep", "tridiagonal", "sparse_lu", "neumann"]


#: Parts of a module that has a test: its kernels, and its implementation on each backend.
BACKEND_PARTS = ("_cpu", "_kernels", "_torch")
#: Modules of the library without a test of their own, and why.
UNTESTED = {
    "version.py": "a constant",
    "cpu/compilation.py": "a decorator: every kernel, and test_kernel_cache.py",
    "cpu/tiles.py": "inlined into the kernels of sweep and sparse_lu",
    "models/configuration.py": "what the settings of images, texts and graphs share: tested with each of them",
    "ops/work.py": "operation counts: test_flops.py and test_select.py",
    "topology/search.py": "kernels of traversal.py",
}


def modules():
    """Every module of ours by name."""
    found = {}
    for root in ORDER:
        for path in root.rglob("*.py"):
            parts = path.relative_to(root.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(path, inside_functions=False):
    """Modules of ours that a file imports when it runs, anywhere in it or only inside of functions."""
    tree = ast.parse(path.read_text())
    skipped = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.walk(node)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = {n for f in functions for n in ast.walk(f)} if inside_functions else set(ast.walk(tree))
    for node in nodes - skipped:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                yield name


@pytest.mark.parametrize(("root", "package"), [(root, p) for root, order in ORDER.items() for p in order])
def test_a_package_imports_only_those_before_it(root, package):
    home = root / package
    files = sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    allowed = [f"{root.name}.{name}" for name in ORDER[root][: ORDER[root].index(package) + 1]] + [root.name]
    if root is LABORATORY:
        allowed.append("chimera_ssm")
    for path in files:
        for name in imports(path):
            assert any(name == a or (a != root.name and name.startswith(f"{a}.")) for a in allowed), f"{path}: {name}"


@pytest.mark.parametrize("root", ORDER)
def test_every_package_has_its_place(root):
    found = {
        p.stem
        for p in root.iterdir()
        if p.name != "__init__.py" and (p.suffix == ".py" or (p / "__init__.py").exists())
    }
    assert found == set(ORDER[root])


def test_kernel_infrastructure_imports_nothing_else_of_ours():
    for path in (LIBRARY / "cpu").rglob("*.py"):
        assert all(name.startswith("chimera_ssm.cpu") for name in imports(path)), path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_does_not_import_others(algorithm):
    others = [f"chimera_ssm.ops.{name}" for name in ALGORITHMS if name != algorithm]
    for path in (LIBRARY / "ops" / algorithm).rglob("*.py"):
        for name in imports(path):
            assert not name.startswith(tuple(others)), f"{path}: {name}"


def test_there_are_no_import_cycles():
    """Imports inside of functions included."""
    edges = {name: {i for i in imports(path) if i != name} for name, path in MODULES.items()}
    while leaves := {name for name, targets in edges.items() if not targets & edges.keys()}:
        edges = {name: targets for name, targets in edges.items() if name not in leaves}
    assert not edges


def test_few_imports_of_ours_are_inside_of_functions():
    late = {name: set(imports(path, inside_functions=True)) for name, path in MODULES.items()}
    assert sum(len(names) for name, names in late.items() if name.startswith("chimera_ssm")) < 30


def test_functions_are_short():
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"


def loaded_by(code):
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in out.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    assert not {"torch", "numpy", "numba"} & loaded_by("import chimera_ssm")


def test_the_functional_interface_does_not_load_numba():
    assert "numba" not in loaded_by("import chimera_ssm as c; c.mix; c.Chimera")


def test_the_core_needs_torch_and_numpy_only():
    code = (
        "import sys\n"
        "for name in ('numba', 'scipy', 'transformers', 'torch_geometric', 'lightning', 'matplotlib', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "import torch, chimera_ssm as c\n"
        "g = c.Grid((3, 3))\n"
        "c.Chimera(8)(torch.randn(9, 8, requires_grad=True), g).sum().backward()\n"
        "for name in c.__all__:\n"
        "    if c._HOME.get(name) not in ('models', 'nn.explain'): getattr(c, name)\n"
    )
    assert "torch" in loaded_by(code)


def test_names_that_need_an_extra_say_which():
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import chimera_ssm as c\n"
        "for name in c._HOMES['models']:\n"
        "    try: getattr(c, name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        line = f'{name} cannot be loaded: transformers is missing: pip install \"chimera-ssm[hf]\"'\n"
        "        assert str(error) == line, error\n"
        "    else: raise AssertionError(name)\n"
    )
    assert "chimera_ssm" in loaded_by(code)


def test_public_names_are_all_there():
    for name in chimera_ssm.__all__:
        assert getattr(chimera_ssm, name) is not None
    assert set(chimera_ssm.__all__) <= set(dir(chimera_ssm))
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        chimera_ssm.Transformer  # noqa: B018


# Tests mirror src

TESTS = Path(__file__).parent


@pytest.mark.parametrize("root", ORDER)
def test_every_test_is_named_after_a_module_or_package(root):
    """`tests/chimera_ssm/ops/test_scan.py` tests `chimera_ssm/ops/scan`, `test_select.py` beside it `select.py`."""
    for path in (TESTS / root.name).rglob("test_*.py"):
        tested = root / path.parent.relative_to(TESTS / root.name) / path.stem.removeprefix("test_")
        assert tested.with_suffix(".py").exists() or (tested / "__init__.py").exists(), f"{path}: there is no {tested}"


def parts_of_the_library():
    """Modules of the library, and folders within its packages (an algorithm, a kind of model), which count as one."""
    for home in (LIBRARY, *(LIBRARY / name for name in ORDER[LIBRARY])):
        for path in home.iterdir() if home.is_dir() else ():
            is_folder = home != LIBRARY and (path / "__init__.py").exists()
            is_module = path.suffix == ".py" and path.name != "__init__.py"
            if is_folder or (is_module and not path.stem.endswith(BACKEND_PARTS)):
                yield path.relative_to(LIBRARY)


def test_every_module_of_the_library_has_a_test_of_its_name():
    found = {str(part): TESTS / LIBRARY.name / part.parent / f"test_{part.stem}.py" for part in parts_of_the_library()}
    assert len(found) > 60
    assert {part for part, test in found.items() if not test.exists()} == UNTESTED.keys()


def test_every_package_of_the_laboratory_has_tests():
    for package in ORDER[LABORATORY]:
        home = TESTS / LABORATORY.name
        assert (home / f"test_{package}.py").exists() or any((home / package).glob("test_*.py")), package
