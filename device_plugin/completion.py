"""`device-plugin completion`: scripts made from the parser, so that they know what it knows."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

_PROGRAM = "device-plugin"
_FILES = {"FILE", "PATH|RESOURCE|ID"}


class _Argument(NamedTuple):
    """A flag, or a word without one (then `names` is empty)."""

    names: tuple[str, ...]
    metavar: str  # empty: it takes no value
    words: tuple[str, ...]  # its values, if they are few
    help: str

    @property
    def is_file(self) -> bool:
        return self.metavar in _FILES

    @property
    def is_folder(self) -> bool:
        return self.metavar == "DIR"


class _Command(NamedTuple):
    name: str
    does: str
    arguments: list[_Argument]

    @property
    def flags(self) -> list[_Argument]:
        return [argument for argument in self.arguments if argument.names]

    @property
    def words(self) -> list[_Argument]:
        return [argument for argument in self.arguments if not argument.names]


def _commands(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    [commands] = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001 - nothing else tells
    for name, one in commands.choices.items():
        yield _Command(name, one.description or "", [_argument(a) for a in one._actions])  # noqa: SLF001


def _argument(action: argparse.Action) -> _Argument:
    words: tuple[str, ...] = getattr(action.type, "words", ())
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    help_ = (action.help or "") % {"default": action.default, "prog": _PROGRAM}
    return _Argument(tuple(action.option_strings), metavar, words, help_)


_BASH = """\
# bash completion of device-plugin; `device-plugin completion bash` has made it
_device_plugin() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words="" kind=""
    # Of --flag=value bash makes three words.
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        words="COMMANDS"
    else
        case "${COMP_WORDS[1]} $before" in
VALUES
        *)
            case "${COMP_WORDS[1]}" in
FLAGS
            esac
            ;;
        esac
    fi
    if [[ $kind == files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif [[ $kind == folders ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    fi
}
complete -F _device_plugin device-plugin"""


def bash(parser: argparse.ArgumentParser) -> str:
    commands = list(_commands(parser))
    values = [
        f'        "{command.name} {name}") {_bash_value(flag)} ;;'
        for command in commands
        for flag in command.flags
        if flag.metavar
        for name in flag.names
    ]
    flags = [f"            {command.name}) {_bash_flags(command)} ;;" for command in commands]
    names = " ".join(command.name for command in commands)
    script = _BASH.replace("COMMANDS", f"{names} --help --version")
    return script.replace("VALUES", "\n".join(values)).replace("FLAGS", "\n".join(flags))


def _bash_value(argument: _Argument) -> str:
    if argument.is_file:
        return "kind=files"
    if argument.is_folder:
        return "kind=folders"
    return f'words="{" ".join(argument.words)}"'


def _bash_flags(command: _Command) -> str:
    """What may stand next, where no flag waits for its value."""
    names = [name for flag in command.flags for name in flag.names]
    words = [word for argument in command.words for word in argument.words]
    listed = f'words="{" ".join(words + names)}"'
    if any(argument.is_file for argument in command.words):
        return f"if [[ $word == -* ]]; then {listed}; else kind=files; fi"
    return listed


def zsh(parser: argparse.ArgumentParser) -> str:
    commands = list(_commands(parser))
    listed = "\n".join(f"        {_quoted(f'{c.name}:{c.does}')}" for c in commands)
    cases = "\n".join(
        f"        {command.name}) _arguments {_zsh_arguments(command.arguments)} ;;"
        for command in commands
    )
    return f"""\
#compdef {_PROGRAM}
# zsh completion of device-plugin; `device-plugin completion zsh` has made it
_device_plugin() {{
    local -a commands
    commands=(
{listed}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
{cases}
    esac
}}
if [[ $funcstack[1] == _device_plugin ]]; then
    _device_plugin "$@"
else
    compdef _device_plugin {_PROGRAM}
fi"""


def _zsh_arguments(arguments: Iterable[_Argument]) -> str:
    specs = []
    for argument in arguments:
        value = f":{_escaped(argument.metavar)}:{_zsh_value(argument)}" if argument.metavar else ""
        if not argument.names:
            specs.append(_quoted(f"1{value}"))
        for name in argument.names:
            equals = "=" if value and name.startswith("--") else ""
            specs.append(_quoted(f"{name}{equals}[{_escaped(argument.help)}]{value}"))
    return " ".join(specs)


def _zsh_value(argument: _Argument) -> str:
    if argument.is_file:
        return "_files"
    if argument.is_folder:
        return "_files -/"
    return f"({' '.join(argument.words)})" if argument.words else " "


def _escaped(text: str) -> str:
    return text.replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")


def fish(parser: argparse.ArgumentParser) -> str:
    lines = [
        "# fish completion of device-plugin; `device-plugin completion fish` has made it",
        f"complete -c {_PROGRAM} -f",
        f"complete -c {_PROGRAM} -n __fish_use_subcommand -l version -d 'the version'",
    ]
    for command in _commands(parser):
        lines.append(
            f"complete -c {_PROGRAM} -n __fish_use_subcommand"
            f" -a {command.name} -d {_quoted(command.does)}"
        )
        for argument in command.arguments:
            if not (argument.names or argument.is_file or argument.words):
                continue  # nobody knows what may stand there
            names = " ".join(_fish_name(name) for name in argument.names)
            parts = [names, _fish_value(argument), "-d", _quoted(argument.help)]
            lines.append(
                f"complete -c {_PROGRAM} -n '__fish_seen_subcommand_from {command.name}' "
                + " ".join(part for part in parts if part)
            )
    return "\n".join(lines)


def _fish_name(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _fish_value(argument: _Argument) -> str:
    required = "-r" if argument.names and argument.metavar else ""
    if argument.is_file:
        return f"{required} -F".strip()
    if argument.is_folder:
        return "-x -a '(__fish_complete_directories)'"
    if argument.words:
        return f"{'-x' if required else ''} -a {_quoted(' '.join(argument.words))}".strip()
    return "-x" if required else ""


def _quoted(text: str) -> str:
    r"""Quote for zsh and fish alike: neither sees more in '\'' than a quote."""
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS: Mapping[str, Callable[[argparse.ArgumentParser], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
