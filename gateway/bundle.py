"""Our pages' scripts as they travel: one file with everything it imports, without its comments."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath

__all__ = ["BundleError", "bundle", "slim"]

_COMMENT_BLOCK = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
_COMMENT_LINE = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_CAST = re.compile(r"/\*\* @\w+ [^*\n]*\*/ ?")
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BLANK = re.compile(r"\n{2,}")
_IMPORT = re.compile(r"^import(?:\s*\{([^}]*)\}\s*from)?\s*'(\.[^']*)';\n", re.MULTILINE)
_PASSED_ON = re.compile(r"^export\s*\{([^}]*)\}(?:\s*from\s*'(\.[^']*)')?;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async function|function|class|const) +(\w+))", re.MULTILINE)
_LATER = re.compile(r"\bimport\('(\.[^']*)'\)")
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)


class BundleError(ValueError):
    """A module has a form that a bundle cannot hold."""

    def __init__(self, path: str, what: str) -> None:
        """Say which module, and what is in it."""
        super().__init__(path, what)
        self.path: str = path
        self.what: str = what

    def __str__(self) -> str:
        return f"{self.path}: expected named imports and exports without cycles, got {self.what}"


def bundle(entry: str, read: Callable[[str], str]) -> str:
    """Make one module of a module and what it imports: each becomes a function that is called once, in import order.

    What is imported when it is needed, as ``import('./a.js')``, stays a file of its own with all that it imports.

    Args:
        entry: Path of the module, with slashes.
        read: Gives the text of a path; it is asked once for each.

    Raises:
        BundleError: A default or star import or export, a dynamic import of anything but a text, or modules that
            import each other.

    """
    bundled = _Bundle(PurePosixPath(entry), read)
    bundled.add(entry)
    return bundled.text()


def slim(text: str) -> str:
    """Take comments and indentation away from a script or a style sheet whose texts span no lines.

    Args:
        text: With comments on lines of their own, and type casts.

    """
    bare = _CAST.sub("", _COMMENT_LINE.sub("", _COMMENT_BLOCK.sub("", text + "\n")))
    return _BLANK.sub("\n", _INDENT.sub("", bare)).lstrip("\n")


class _Bundle:
    def __init__(self, entry: PurePosixPath, read: Callable[[str], str]) -> None:
        self._entry = entry
        self._read = read
        self._names: dict[str, str] = {}
        """Of the modules that are in: by path, what holds their exports."""
        self._waiting: list[str] = []
        """Modules whose imports are being read."""
        self._parts: list[str] = []
        self._exports: list[str] = []
        """Of the module that was added last."""

    def add(self, path: str) -> str:
        if path in self._names:
            return self._names[path]
        if path in self._waiting:
            raise BundleError(path, f"a cycle: {' -> '.join((*self._waiting, path))}")
        self._waiting.append(path)
        text = slim(self._read(path))
        given: list[str] = []
        heads = [self._bind(path, *found.groups()) for found in _IMPORT.finditer(text)]
        text = _IMPORT.sub("", text)
        for found in _PASSED_ON.finditer(text):
            names, source = found.groups()
            if source is not None:
                heads.append(self._bind(path, names, source))
                given += [name.split()[-1] for name in _list(names)]
            else:
                given += [_renamed(name, backwards=True) for name in _list(names)]
        text = _PASSED_ON.sub("", text)
        given += [name for _, name in _EXPORT.findall(text)]
        text = _EXPORT.sub(r"\1", text)
        other = _OTHER.search(_LATER.sub("", text))
        if other is not None:
            raise BundleError(path, other[0])
        text = text.replace("import.meta.url", self._address(path))
        text = _LATER.sub(
            lambda found: f"import({self._address(_normal(PurePosixPath(path).parent / found[1]))})", text
        )
        self._waiting.pop()
        name = f"m{len(self._names)}"
        self._names[path] = name
        self._exports = given
        result = f"return {{ {', '.join(given)} }};\n" if given else ""
        self._parts.append(f"const {name} = (() => {{\n{''.join(heads)}{text}{result}}})();\n")
        return name

    def text(self) -> str:
        names = [name.split(":")[0] for name in self._exports]
        return "".join(self._parts) + (
            f"const {{ {', '.join(f'{name}: _{name}' for name in names)} }} = m{len(self._names) - 1};\n"
            f"export {{ {', '.join(f'_{name} as {name}' for name in names)} }};\n"
            if names
            else ""
        )

    def _bind(self, importer: str, names: str | None, source: str) -> str:
        held = self.add(_normal(PurePosixPath(importer).parent / source))
        if not _list(names):
            return ""
        return f"const {{ {', '.join(_renamed(name) for name in _list(names))} }} = {held};\n"

    def _address(self, path: str) -> str:
        """Give where a module would be by itself, under the same query."""
        if PurePosixPath(path) == self._entry:
            return "import.meta.url"
        up = "../" * (len(self._entry.parts) - 1)
        return f"new URL('{up or './'}{path}' + new URL(import.meta.url).search, import.meta.url).href"


def _list(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _renamed(name: str, *, backwards: bool = False) -> str:
    """Turn `a as b` of an import into `a: b` of a pattern; backwards that of an export into `b: a` of an object."""
    own, _, other = (part.strip() for part in name.partition(" as "))
    if not other:
        return own
    return f"{other}: {own}" if backwards else f"{own}: {other}"


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
