"""Small wrong changes of a source text, by its syntax tree: what `mutants.py` tries on the tests.

A mutation replaces the text of one expression or statement, and leaves the rest as it is. Left alone is what does nothing or is nothing but
text: docstrings, messages, imports, types, decorators, bodies of protocols, ``__repr__``, and assertions (``strict=True`` is one). A
statement that makes an attribute in ``__init__`` is not dropped, as any use of it would fail, and no `NotImplementedError`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutations"]


def _comparison(text: str) -> ast.cmpop:
    comparison = ast.parse(f"a {text} b", mode="eval").body
    assert isinstance(comparison, ast.Compare)
    return comparison.ops[0]


PAIRS = [("<", "<="), (">", ">="), ("==", "!="), ("is", "is not"), ("in", "not in")]
SWAPPED = {type(_comparison(one)): _comparison(other) for pair in PAIRS for one, other in (pair, pair[::-1])}
COUNTERPARTS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
}
TEXT_METHODS = {"__repr__", "__str__"}
# For the type checker, or with arguments of different kinds, so that a swap is an error of types at once.
NOT_SWAPPED = {"TypeVar", "cast", "isinstance", "issubclass"}


@dataclass(frozen=True)
class Mutation:
    """One wrong change of a source text: what it does in words, and the whole text after it."""

    line: int
    words: str
    source: str


def mutations(source: str) -> list[Mutation]:
    """All mutations of a source text, by line."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    whole = source.encode()
    found: list[Mutation] = []
    for node, replacement in _replacements(ast.parse(source), False):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = whole[start:end].decode()
        words = f"{_short(before)} -> {_short(replacement)}"
        found.append(Mutation(node.lineno, words, (whole[:start] + replacement.encode() + whole[end:]).decode()))
    return sorted(found, key=lambda mutation: mutation.line)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- what is mutated -----------------------------------------------------------------------------------------------------


def _replacements(node: ast.AST, makes: bool) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Each place below a node that can be mutated, and what is put there.

    Args:
        node: the tree.
        makes: whether it stands in ``__init__``.
    """
    if _is_left_alone(node):
        return
    if isinstance(node, ast.stmt) and not (makes and isinstance(node, ast.Assign | ast.AnnAssign)):
        yield from ((node, text) for text in _of_statement(node))
    if isinstance(node, ast.expr):
        yield from ((node, f"({ast.unparse(changed)})") for changed in _of_expression(node))
    for test in _conditions(node):
        yield test, f"(not ({ast.unparse(test)}))"
    if isinstance(node, ast.FunctionDef):
        makes = node.name == "__init__"
    for child in _children(node):
        yield from _replacements(child, makes)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.AnnAssign(value=None):
            return True
        case ast.FunctionDef(name=name):
            return name in TEXT_METHODS
        case ast.ClassDef(bases=bases):
            return any(ast.unparse(base).startswith("Protocol") for base in bases)
        case ast.Raise():
            return "NotImplementedError" in ast.unparse(node)
        case _:
            return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that run: neither decorators nor annotations, and nothing of an error that is raised."""
    match node:
        case ast.Raise():
            return
        case ast.FunctionDef(args=arguments, body=body):
            yield from [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None), *body]
        case ast.ClassDef(body=body):
            yield from body
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from [target, value]
        case ast.keyword(arg="repr" | "strict"):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [] if isinstance(test, ast.Constant) else [test]
        case ast.comprehension(ifs=tests):
            return tests
        case _:
            return []


def _of_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AnnAssign(target=ast.Attribute() | ast.Subscript()):
            yield "pass"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case _:
            pass


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Compare(ops=[operator]):
            yield ast.Compare(node.left, [SWAPPED[type(operator)]], node.comparators)
        case ast.BoolOp(op=operator):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), node.values)
        case ast.BinOp(op=operator) if type(operator) in COUNTERPARTS:
            yield ast.BinOp(node.left, COUNTERPARTS[type(operator)], node.right)
        case ast.Call(func=function, args=[first, second, *others]) if ast.unparse(function).split(".")[-1] not in NOT_SWAPPED:
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred) and ast.dump(first) != ast.dump(second):
                yield ast.Call(function, [second, first, *others], node.keywords)
        case _:
            pass
