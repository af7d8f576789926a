import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.app import static_directory
from gateway.bundle import BundleError, bundle, slim

JS = Path(__file__).parent / "js"
TOKENS = """
const ts = require('typescript');
const tokens = (text) => {
    const names = [];
    const walk = (node) => {
        if (node.getChildCount(source) === 0 && node.getText(source) !== '') names.push(node.getText(source));
        const { FirstJSDocNode, LastJSDocNode } = ts.SyntaxKind;
        const isCode = ({ kind }) => kind < FirstJSDocNode || kind > LastJSDocNode;
        node.getChildren(source).filter(isCode).forEach(walk);
    };
    const source = ts.createSourceFile('module.js', text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
    walk(source);
    return names.join(' ');
};
let given = '';
process.stdin.on('data', (piece) => (given += piece)).on('end', () => {
    for (const [path, before, after] of JSON.parse(given)) {
        if (tokens(before) !== tokens(after)) console.log(path);
    }
});
"""


def made(entry: str = "a.js", **modules: str) -> str:
    return bundle(entry, lambda path: modules[path.removesuffix(".js").replace("/", "_")])


async def printed(tmp_path: Path, script: str) -> str:
    path = tmp_path / "bundle.mjs"
    path.write_text(script)
    node = await asyncio.create_subprocess_exec("node", str(path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return (await node.communicate())[0].decode()


@pytest.fixture(autouse=True)
def _node() -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")


async def test_modules_run_once_in_import_order(tmp_path: Path) -> None:
    script = made(
        a="import { x, y as z } from './b.js';\nimport './c.js';\nconsole.log('a', x, z);\n",
        b="import { y } from './c.js';\nconsole.log('b');\nexport const x = 1;\nexport { y };\n",
        c="console.log('c');\nexport const y = 2;\n",
    )
    assert await printed(tmp_path, script) == "c\nb\na 1 2\n"


async def test_names_of_one_module_are_not_those_of_another(tmp_path: Path) -> None:
    script = made(
        a="import { one } from './b.js';\nconst own = 'a';\nconsole.log(own, one());\n",
        b="const own = 'b';\nexport function one() {\n  return own;\n}\n",
    )
    assert await printed(tmp_path, script) == "a b\n"


async def test_exports_of_the_entry_stay(tmp_path: Path) -> None:
    script = made(
        a="export { B as C, f } from './b.js';\nexport class A {}\n",
        b="export class B {}\nexport async function f() {}\n",
    )
    (tmp_path / "made.mjs").write_text(script)
    assert await printed(tmp_path, "console.log(Object.keys(await import('./made.mjs')));\n") == "[ 'A', 'C', 'f' ]\n"


async def test_what_is_imported_when_it_is_needed_stays_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "b.js").write_text("export const b = 'later';\n")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    files = {
        "chat/main.js": "import { load } from '../lib/a.js';\nload().then(({ b }) => console.log(b));\n",
        "lib/a.js": "export const load = () => import('./b.js');\n",
    }
    script = bundle("chat/main.js", files.__getitem__)
    assert "'later'" not in script
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "main.js").write_text(script)
    assert await printed(tmp_path, "await import('./chat/main.js');\n") == "later\n"


async def test_a_module_knows_where_it_would_be(tmp_path: Path) -> None:
    script = bundle(
        "chat/main.js",
        {
            "chat/main.js": "import { at } from '../lib/b.js';\nconsole.log(at.endsWith('/lib/b.js'));\n",
            "lib/b.js": "export const at = import.meta.url;\n",
        }.__getitem__,
    )
    (tmp_path / "chat").mkdir()
    assert await printed(tmp_path / "chat", script) == "true\n"


@pytest.mark.parametrize(
    "text",
    [
        "import all from './b.js';\n",
        "import * as all from './b.js';\n",
        "export default 1;\n",
        "export let a = 1;\n",
        "const later = (name) => import(name);\n",
    ],
)
def test_forms_that_do_not_fit_are_named(text: str) -> None:
    with pytest.raises(BundleError, match=r"a\.js: expected named imports and exports without cycles, got "):
        made(a=text, b="")


def test_cycle_is_named() -> None:
    with pytest.raises(BundleError, match=r"a cycle: a\.js -> b\.js -> a\.js"):
        made(
            a="import { b } from './b.js';\nexport const a = 1;\n",
            b="import { a } from './a.js';\nexport const b = 1;\n",
        )


async def test_slim_scripts_are_the_same_scripts() -> None:
    """Judged by TypeScript's parser on every script there is."""
    scripts = sorted(static_directory().rglob("*.js"))
    cases = [[str(path), path.read_text(), slim(path.read_text())] for path in scripts]
    assert sum(len(after) for _, _, after in cases) < 0.8 * sum(len(before) for _, before, _ in cases)
    node = await asyncio.create_subprocess_exec(
        "node", "-e", TOKENS, cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert (await node.communicate(json.dumps(cases).encode()))[0].decode() == ""
