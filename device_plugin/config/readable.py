"""Which types the settings of an added kind may have: what we cannot read, or keep, is refused."""

from collections.abc import Iterator

from msgspec import NODEFAULT, Struct, inspect

_READ = (
    "str, int, bool, float (a duration), Literal, tuple[X, ...], dict[str, X], msgspec.Struct,"
    " or one of these and None"
)
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType)
_IGNORED = ("gt", "lt", "multiple_of")
_LENGTHS = ("min_length", "max_length")


def unreadable(settings: type[Struct]) -> Iterator[str]:
    """Say what is wrong with each type, and with each bound that nobody would check."""
    yield from _unreadable(inspect.type_info(settings), "settings", ())


def _unreadable(due: inspect.Type, label: str, above: tuple[type, ...]) -> Iterator[str]:
    if isinstance(due, inspect.StructType):
        if due.cls in above:
            return
        above = (*above, due.cls)
    parts = _parts(due, label)
    if parts is None:
        yield f"no YAML is read as the type of `{label}`; take {_READ}"
    if bound := _unchecked(due):
        yield f"`{bound}` of `{label}` is not checked; do that in __post_init__"
    for part, name in parts or ():
        yield from _unreadable(part, name, above)


def _parts(due: inspect.Type, label: str) -> list[tuple[inspect.Type, str]] | None:
    """The types that a value is made of, and how each is called; None: we cannot read it."""
    match due:
        case inspect.StructType(fields=fields):
            for field in fields:
                if field.default_factory is not NODEFAULT:
                    field.default_factory()  # it raises here rather than at each reading
            return [(field.type, f"{label}.{field.name}") for field in fields]
        case inspect.UnionType(types=kinds):
            some = [(one, label) for one in kinds if not isinstance(one, inspect.NoneType)]
            return some if len(some) == 1 else None
        case inspect.VarTupleType(item_type=inner):
            return [(inner, f"{label}[]")]
        case inspect.DictType(key_type=inspect.StrType(), value_type=inner):
            return [(inner, f"{label}.NAME")]
        case inspect.Metadata(type=inner):
            return [(inner, label)]
    return [] if _is_scalar(due) else None


def _is_scalar(due: inspect.Type) -> bool:
    if isinstance(due, inspect.LiteralType):
        return all(isinstance(value, str | int) for value in due.values)
    return isinstance(due, _SCALARS)


def _unchecked(due: inspect.Type) -> str:
    """A bound of a type that reading does not look at."""
    bounds: tuple[str, ...] = _IGNORED
    if isinstance(due, inspect.VarTupleType | inspect.DictType):
        bounds = _LENGTHS
    if isinstance(due, inspect.DictType):
        key = due.key_type
        if any(getattr(key, name, None) is not None for name in (*_LENGTHS, "pattern")):
            return "the key's bound"
    return next((name for name in bounds if getattr(due, name, None) is not None), "")
