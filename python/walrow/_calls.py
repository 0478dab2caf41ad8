"""Calls with wrong arguments: their errors name the right argument, or the missing one."""

from __future__ import annotations

import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from collections.abc import Set as AbstractSet

__all__ = ["explained", "is_no_option"]

F = TypeVar("F", bound="Callable[..., Any]")


def explained(
    function: F, elsewhere: Collection[str] = (), handed_on: Collection[str] = ()
) -> F:
    """Explains a call with wrong names, too few or too many arguments.

    >>> @explained
    ... def seal(source, *, log): ...
    >>> seal("a.wire", lgo="log/")
    Traceback (most recent call last):
        ...
    TypeError: lgo is not an option of seal(); did you mean log?

    Args:
        function: The function.
        elsewhere: Options of other functions, which the function itself refuses.
        handed_on: Options that it hands on to another function.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    known = [
        name
        for name, it in parameters.items()
        if it.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    known += [name for name in handed_on if name not in parameters]
    taken = {*known, *elsewhere}
    where = f"{function.__qualname__.removesuffix('.__init__').rpartition('.')[2]}()"

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        # Some functions take all names, and hand them on.
        for name in named.keys() - taken:
            text = is_no_option(name, known, where)
            raise TypeError(text)
        try:
            return function(*given, **named)
        except TypeError:
            if _fits(signature, given, named):
                # It is an error inside of the function.
                raise
        text = f"{where} {_misfit(function, len(given), named.keys())}"
        raise TypeError(text)

    # It has the type of the function.
    return call  # type: ignore[return-value]


def _fits(signature: inspect.Signature, given: Any, named: Any) -> bool:
    """Whether a call has the right arguments."""
    try:
        signature.bind(*given, **named)
    except TypeError:
        return False
    return True


def is_no_option(name: str, known: Collection[str], where: str) -> str:
    """Says that there is no such option, and which one it may mean."""
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    options = ", ".join(each for each in known if each != "self")
    hint = f"did you mean {close[0]}?" if close else f"its options are {options}"
    return f"{name} is not an option of {where}; {hint}"


def _misfit(function: Callable[..., Any], count: int, named: AbstractSet[str]) -> str:
    """Says which arguments are missing, or that there are too many."""
    parameters = inspect.signature(function).parameters
    placed = [
        name
        for name, it in parameters.items()
        if it.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    if count > len(placed):
        first = ", ".join(name for name in placed if name != "self")
        if not first:
            return "takes no argument without a name: write name=value"
        return f"takes only {first} without a name: write name=value for the others"
    if twice := named & set(placed[:count]):
        return f"has {min(twice)} twice, without and with its name"
    missing = [
        f"{name} ({_meaning(function, name)})"
        for name, it in parameters.items()
        if it.default is inspect.Parameter.empty
        and name not in {*named, *placed[:count]}
    ]
    return f"needs {' and '.join(missing)}"


def _meaning(function: Callable[..., Any], name: str) -> str:
    """The first sentence about an argument in the docstring, as far as it is in one line."""
    pattern = rf"^ +{name}: (.+)$"
    # A class describes the arguments of its constructor.
    owner = function.__globals__.get(function.__qualname__.partition(".")[0])
    doc = inspect.getdoc(owner if function.__name__ == "__init__" else function)
    found = re.search(pattern, doc or "", re.MULTILINE)
    text = found[1].partition(". ")[0].rstrip(".,:") if found else "see its help"
    return text[:1].lower() + text[1:]
