"""The JSON Schema of a config file, for editors; what it cannot say, `check` says."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import inspect

from device_plugin import attribute
from device_plugin.config import added, names, scalars, types
from device_plugin.config.describe import Described, Key, alternatives, config, describe

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NAME = (
    rf"^(?!requests\.)(?!.*kubernetes\.io/){names.LABEL.pattern}(?:\.{names.LABEL.pattern})*"
    rf"/(?=.{{1,63}}$){names.NAME.pattern}$"
)
_DRIVER = (
    rf"^(?![0-9])(?=.{{1,{names.DRIVER_LIMIT}}}$){names.LABEL.pattern}"
    rf"(?:\.{names.LABEL.pattern})*$"
)
_ABSOLUTE = {"pattern": "^/"}
_TEMPLATE = {"pattern": "^[/{]"}
_PERMISSIONS = {"pattern": r"^(?!.*(.).*\1)[rwm]{1,3}$"}
_QUANTITY = {"type": "string", "pattern": f"^{attribute.QUANTITY}$"}
_HEX = rf"(?=.*[*?\[])[0-9a-f{names.GLOB}]+"
_ID = {"pattern": f"^(?:[0-9a-f]{{4}}|{_HEX})$"}
_CLASS = {"pattern": f"^(?:(?:[0-9a-f]{{2}}){{1,3}}|{_HEX})$"}
_ADDRESS = {"pattern": f"^(?:{names.ADDRESS.pattern}|.*[*?\\[].*)$"}
_PORT = {"pattern": f"^(?:{names.PORT.pattern}|.*[*?\\[].*)$"}
_TEXT = {"minLength": 1}
_ATTRIBUTES = {"propertyNames": {"pattern": f"^{names.ATTRIBUTE.pattern}$"}}
# What the types do not say of a key's value.
_MORE: Mapping[tuple[type, str], Schema] = {
    (types.Config, "resources"): {"minItems": 1},
    (types.Resource, "name"): {"pattern": _NAME},
    (types.Resource, "devices"): {"minItems": 1},
    (types.Resource, "partitions"): {"minItems": 1},
    (types.Partition, "name"): {
        "pattern": f"^(?=.{{1,{names.PARTITION_LIMIT}}}$){names.LABEL.pattern}$"
    },
    (types.Partition, "capacity"): {
        **_ATTRIBUTES,
        "minProperties": 1,
        "additionalProperties": _QUANTITY,
    },
    (types.Dra, "driver"): {"pattern": _DRIVER},
    (types.Selector, "path"): _ABSOLUTE,
    (types.Selector, "to"): _TEMPLATE,
    (types.Selector, "permissions"): _PERMISSIONS,
    (types.Companion, "path"): _ABSOLUTE,
    (types.Companion, "to"): _TEMPLATE,
    (types.Companion, "permissions"): _PERMISSIONS,
    (types.Virtual, "attributes"): _ATTRIBUTES,
    (types.Virtual, "capacity"): {**_ATTRIBUTES, "additionalProperties": _QUANTITY},
    (types.VersionValue, "version"): {"pattern": f"^{attribute.VERSION}$"},
    (types.Usb, "vendor"): _ID,
    (types.Usb, "product"): _ID,
    (types.Usb, "serial"): _TEXT,
    (types.Usb, "port"): _PORT,
    (types.Usb, "class"): _CLASS,
    (types.Pci, "vendor"): _ID,
    (types.Pci, "device"): _ID,
    (types.Pci, "class"): _CLASS,
    (types.Pci, "subsystem_vendor"): _ID,
    (types.Pci, "subsystem_device"): _ID,
    (types.Pci, "driver"): _TEXT,
    (types.Pci, "address"): _ADDRESS,
    (types.NodeOf, "subsystem"): {"pattern": f"^{names.SUBSYSTEM.pattern}$"},
    (types.NodeOf, "to"): _TEMPLATE,
    (types.NodeOf, "permissions"): _PERMISSIONS,
    (types.Selector, "nodes"): {"minItems": 1},
    (types.Exec, "command"): {"minItems": 1},
    (types.Mount, "host_path"): _TEMPLATE,
    (types.Mount, "path"): _TEMPLATE,
}
# How many values an operator of `where` takes.
_VALUES: Mapping[tuple[str, ...], Schema | None] = {
    ("In", "NotIn"): {"minItems": 1},
    ("AtLeast", "AtMost"): {"minItems": 1, "maxItems": 1},
    ("Exists", "DoesNotExist"): None,
}


def schema() -> Schema:
    """Make the whole schema, JSON Schema 2020-12."""
    definitions: dict[str, Schema] = {}
    root = _value(config(), definitions)
    return {"$schema": _DIALECT, "title": "device-plugin", **root, "$defs": definitions}


def _value(kind: inspect.Type, definitions: dict[str, Schema]) -> Schema:
    kinds = alternatives(kind)
    if len(kinds) > 1:
        return {"anyOf": [_value(one, definitions) for one in kinds]}
    match kinds[0]:
        case inspect.StructType() as struct:
            return _reference(describe(struct), definitions)
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _value(item, definitions)}
        case inspect.DictType(value_type=item):
            return {"type": "object", "additionalProperties": _value(item, definitions)}
    return _scalar(kinds[0])


def _scalar(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.IntType(ge=low, le=high):
            limits = {"minimum": low, "maximum": high}
            return {"type": "integer"} | {k: v for k, v in limits.items() if v is not None}
        case inspect.FloatType():
            return {"type": "string", "pattern": f"^{scalars.DURATION.pattern}$"}
        case inspect.LiteralType(values=values):
            return {"enum": list(values)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            bounds = {"minLength": low, "maxLength": high, "pattern": pattern}
            return {"type": "string"} | {k: v for k, v in bounds.items() if v is not None}
    return {"type": "string"}


def _reference(mapping: Described, definitions: dict[str, Schema]) -> Schema:
    name = mapping.cls.__name__
    if mapping.cls.__module__ != types.__name__:  # an added kind's
        name = f"{mapping.cls.__module__}.{name}"
    if name not in definitions:
        definitions[name] = {}  # here, so that the order is the file's
        definitions[name] = {"description": mapping.text, **_mapping(mapping, definitions)}
    return {"$ref": f"#/$defs/{name}"}


def _mapping(mapping: Described, definitions: dict[str, Schema]) -> Schema:
    values = {key.name: _key(mapping, key, definitions) for key in mapping.keys}
    required = [key.name for key in mapping.keys if key.required]
    if mapping.cls is types.Selector:  # editors complete by kind
        others = values.keys() - types.KINDS.keys() - frozenset().union(*types.KINDS.values())
        fitting = {kind: {kind, *options, *others} for kind, options in types.KINDS.items()}
        for kind, value in _added(definitions):
            values[kind] = value
            fitting[kind] = {kind, *others}
        return {
            "oneOf": [
                {"title": kind, **_closed({k: v for k, v in values.items() if k in fits}, [kind])}
                for kind, fits in fitting.items()
            ]
        }
    if mapping.cls is types.Requirement:
        return {"oneOf": [_requirement(values, *one) for one in _VALUES.items()]}
    if mapping.cls in (types.Usb, types.Pci):
        return {**_closed(values, required), "minProperties": 1}
    return _closed(values, required)


def _added(definitions: dict[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """The kinds that packages add."""
    kinds, _ = added.every()
    for name, kind in kinds.items():
        yield name, _value(inspect.type_info(kind.settings), definitions)


def _requirement(values: Schema, operators: tuple[str, ...], number: Schema | None) -> Schema:
    some = {**values, "operator": {**values["operator"], "enum": list(operators)}}
    if number is None:
        some.pop("values")
        return _closed(some, ["key", "operator"])
    some["values"] = {**some["values"], **number}
    return _closed(some, ["key", "operator", "values"])


def _closed(properties: Schema, required: list[str]) -> Schema:
    made = {"type": "object", "properties": properties, "required": required}
    return {**made, "additionalProperties": False}


def _key(mapping: Described, key: Key, definitions: dict[str, Schema]) -> Schema:
    made = _value(key.kind, definitions) | _MORE.get((mapping.cls, key.name), {})
    match key.default:
        case float(seconds):
            made["default"] = scalars.duration(seconds)
        case str() | int():
            made["default"] = key.default
    return {"description": key.text, **made} if key.text else made
