"""Rules of shape that decay without a check: sizes, names, imports, words that may not stand."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "aegis"
LINES_MAX = 400
FUNCTION_LINES_MAX = 60

LONG_FILES: dict[str, str] = {
    "stores/memory/store.py": "one class holds every task port, so that each verb is one critical"
    " section over the same dictionaries",
}
LONG_FUNCTIONS: dict[str, str] = {
    "bootstrap/runtime.py:open_runtime": "the composition root: one wire a line, nothing decided",
}
REASONS_BELOW: dict[str, str] = {
    "tools/executor.py": "says why in the line below its handler",
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "base", "manager", "misc"}
LAZY_ROOMS = ("bootstrap/", "cli/")
"""Where imports may stand inside functions: an adapter or a command loads when it is asked for."""

BROAD = {"Exception", "BaseException"}
# These words are written in halves, so that this file may be read by its own rules.
OPEN_ENDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|NotImpl" + "emented")
REGISTRY_HOSTS = re.compile(r"py" + r"pi\.org|python" + r"hosted|npm" + r"js\.|deb" + r"ian\.org")
MACHINE_PATHS = re.compile(r"(?<![\w.}>-])/(ro" + r"ot|ho" + r"me|wo" + r"rk|Us" + r"ers)/\w")
SILENCED = re.compile(r"#\s*(noqa|type: ignore|pyright: ignore|pragma: no)")
SILENCED_WITH_REASON = re.compile(
    r"#\s*(noqa: [A-Z0-9, ]+|type: ignore\S*|pyright: ignore\S*|pragma: no \w+) - \w+"
)
SQL_TOOLS = {"sqlalchemy", "alembic"}
MAY_IMPORT_SQL_TOOLS = (
    "stores/sql/schema.py",
    "stores/sql/declarations.py",
    "stores/sql/generate.py",
    "stores/sql/migrate.py",
    "stores/sql/migrations/",
)

FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def long_files(files=FILES, limit=LINES_MAX):
    return {name_of(path) for path in files if len(path.read_text().splitlines()) > limit}


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(files=FILES, limit=FUNCTION_LINES_MAX):
    return {
        f"{name_of(path)}:{node.name}"
        for path in files
        for node in functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > limit
    }


def test_long_files_are_those_with_a_reason():
    assert long_files() == set(LONG_FILES)


def test_long_functions_are_those_with_a_reason():
    assert long_functions() == set(LONG_FUNCTIONS)


def test_the_size_rules_can_fail():
    assert long_files(limit=10)
    assert long_functions(limit=5)


def test_no_file_or_room_is_named_after_nothing():
    named = {part for path in FILES for part in Path(name_of(path)).with_suffix("").parts}
    assert not named & FORBIDDEN_NAMES


def test_every_room_says_what_lives_there():
    for path in SOURCE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), name_of(path)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_stand_at_the_top(path):
    if name_of(path).startswith(LAZY_ROOMS):
        return
    for function in functions(path):
        inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not inside, f"{name_of(path)}:{function.name} imports inside a function"


def broad_handlers_without_reason(text: str) -> list[int]:
    """Return the lines of handlers that catch everything, keep it, and do not say why."""
    lines = text.splitlines()
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        named = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else {}
        broad = node.type is None or not BROAD.isdisjoint(named)
        last = node.body[-1]
        raised_again = isinstance(last, ast.Raise) and last.exc is None
        line = re.sub(r"noqa(: [A-Z0-9, ]+)?", "", lines[node.lineno - 1])
        if broad and not raised_again and not re.search(r"#.*\w{2}", line):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_broad_except_has_its_reason_on_the_line(path):
    found = broad_handlers_without_reason(path.read_text())
    assert len(found) == (1 if name_of(path) in REASONS_BELOW else 0), found


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("except Exception:\n    pass", [3]),
        ("except Exception:  # noqa: BLE001\n    pass", [3]),
        ("except (OSError, Exception):\n    pass", [3]),
        ("except:\n    pass", [3]),
        ("except Exception:  # noqa: BLE001 - its siblings commit\n    pass", []),
        ("except BaseException:\n    close()\n    raise", []),
        ("except OSError:\n    pass", []),
    ],
)
def test_the_rule_on_broad_excepts_can_fail(handler, found):
    assert broad_handlers_without_reason(f"try:\n    work()\n{handler}\n") == found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_generation_and_migration_import_the_sql_tools(path):
    if name_of(path).startswith(MAY_IMPORT_SQL_TOOLS):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        assert not {module.partition(".")[0] for module in modules} & SQL_TOOLS, name_of(path)


def test_a_running_server_loads_neither_sqlalchemy_nor_alembic_nor_a_model_sdk():
    code = (
        "import sys, aegis.bootstrap.serving, aegis.bootstrap.runtime, aegis.web.app,"
        " aegis.stores.sql.sqlite.store\n"
        "print([m for m in ('sqlalchemy', 'alembic', 'openai', 'anthropic') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_without_the_server():
    code = (
        "import sys, aegis.cli\n"
        "print([m for m in ('fastapi', 'uvicorn', 'httpx2', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def tracked_text():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 400_000:
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def test_nothing_is_left_open_and_no_machine_or_registry_is_named():
    for name, text in tracked_text():
        assert not REGISTRY_HOSTS.search(text), name
        assert not MACHINE_PATHS.search(text), name
        if not name.endswith(".md"):
            assert not OPEN_ENDS.search(text), name


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("OPEN_ENDS", "# TO" + "DO: later"),
        ("REGISTRY_HOSTS", "https://py" + "pi.org/simple"),
        ("MACHINE_PATHS", "open('/ho" + "me/somebody/x')"),
        ("MACHINE_PATHS", "see /wo" + "rk/main"),
    ],
)
def test_the_rules_on_words_can_fail(rule, text):
    assert globals()[rule].search(text)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_silenced_checker_is_silenced_for_a_reason(path):
    for line in path.read_text().splitlines():
        if SILENCED.search(line):
            assert SILENCED_WITH_REASON.search(line), f"{name_of(path)}: {line.strip()}"


def test_locks_carry_hashes_and_no_addresses():
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert not re.search(r"https?://|file:|--index|--find-links", text), lock.name
