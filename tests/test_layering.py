"""The architecture: data flows one way, and importing the package loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import chimera_ssm

ROOT = Path(chimera_ssm.__file__).parent
ORDER = [
    "version",
    "errors",
    "pixels",
    "topology",
    "adjacency",
    "solvers",
    "nn",
    "models",
    "data",
    "training",
    "recipes",
    "planning",
    "studies",
    "show",
    "cli",
]


def imports(path):
    """Packages of ours that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        for name in names:
            if name.startswith("chimera_ssm."):
                yield name.split(".")[1]


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_those_before_it(package):
    home = ROOT / package
    files = sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    allowed = set(ORDER[: ORDER.index(package) + 1])
    for path in files:
        assert set(imports(path)) <= allowed, path


def test_every_package_has_its_place():
    found = {
        p.stem
        for p in ROOT.iterdir()
        if p.name != "__init__.py" and (p.suffix == ".py" or (p / "__init__.py").exists())
    }
    assert found == set(ORDER)


def loaded_by(code):
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in out.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    assert not {"torch", "numpy", "numba"} & loaded_by("import chimera_ssm")


def test_the_core_needs_torch_and_numpy_only():
    code = (
        "import sys\n"
        "for name in ('numba', 'scipy', 'transformers', 'torch_geometric', 'lightning', 'matplotlib', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "import torch, chimera_ssm as c\n"
        "g = c.Grid((3, 3))\n"
        "c.Chimera(8)(torch.randn(9, 8, requires_grad=True), g).sum().backward()\n"
        "for name in c.__all__:\n"
        "    if name not in c._HOMES['models']: getattr(c, name)\n"
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
