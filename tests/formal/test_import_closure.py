"""Test the search for all files that a file imports."""

from pathlib import Path

import tensordash_sim
from tensordash_formal.import_closure import imported_files

FILES = {
    "__init__.py": "",
    "top.py": "import os\nfrom pack.low import a, b\nfrom . import beside\n",
    "beside.py": "def later():\n    import pack.low.c as c\n",
    "other.py": "",
    "low/__init__.py": "a = 1\n",
    "low/b.py": "from ..top import later\n",
    "low/c.py": "from other import nothing\n",
}


def test_imports_are_followed(tmp_path):
    package = tmp_path / "pack"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = imported_files(package, package / "top.py")
    names = [str(each.relative_to(package)) for each in found]
    assert names == ["__init__.py", "beside.py", "low/__init__.py", "low/b.py", "low/c.py", "top.py"]


def test_a_unit_bench_has_its_own_helpers_and_no_other_bench():
    package = Path(tensordash_sim.__file__).parent
    found = {str(each.relative_to(package)) for each in imported_files(package, package / "verify/units/load.py")}
    assert {
        "verify/units/load.py",
        "verify/units/command.py",
        "verify/axi_memory.py",
        "golden/core/golden_core.py",
    } <= found
    assert "verify/units/store.py" not in found
