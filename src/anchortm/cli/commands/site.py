"""Take part in a fit whose rows stay at their sites."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchortm.cli.models import MODELS
from anchortm.cli.options import add_certificate, add_json, add_output, add_reading
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    from anchortm.federated import Site

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm site study trial.toml -f "Surv(tstop, status) ~ treat + age | site" --members east,north,west',
    "anchortm site keys north.key",
    "anchortm site check trial.toml --data cgd.csv --name north -m weibull",
)
ACTIONS = ("study", "keys", "check", "join", "ledger")


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument(
        "action",
        choices=ACTIONS,
        metavar="ACTION",
        help="study: write a study file. keys: make a private key for masks. check: say what a site would refuse, "
        "without a connection. join: dial in to the hub and answer. ledger: print what was asked",
    )
    command.add_argument("file", metavar="FILE", help="the study file; for keys and ledger their own file")
    group = command.add_argument_group("study")
    group.add_argument("-f", "--formula", help="outcome ~ covariates | site")
    group.add_argument("--members", metavar="NAME,...", help="names of the sites")
    group = command.add_argument_group("check and join")
    group.add_argument("--data", metavar="TABLE", help="the rows of the site, a .csv or .parquet file")
    group.add_argument("--name", help="name of the site in the study, and in its certificate")
    group.add_argument("--environments", metavar="COLUMN", help="column of environments inside the site, such as wards")
    group.add_argument("--policy", metavar="FILE", help="the site's rules for disclosure, a .toml file")
    group.add_argument(
        "-m", "--model", choices=list(MODELS), metavar="MODEL", help="for check: the model, which reads the outcome"
    )
    group = command.add_argument_group("join")
    group.add_argument("--hub", metavar="HOST:PORT", help="where the hub listens")
    add_certificate(group, "this site")
    group.add_argument("--masks", metavar="FILE", help="private key for masks, which site keys has made")
    group.add_argument("--ledger", metavar="FILE", help="where to write down what is asked (default: ledger.jsonl)")
    group.add_argument(
        "--patience",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="how long to try to reach the hub (default 600)",
    )
    add_reading(command)
    add_output(command, "the ledger as a table")
    add_json(command, "the ledger")


def run(options: Any) -> int:
    """Do what the action says, and return 1 if a check finds something."""
    actions = {"study": _study, "keys": _keys, "check": _check, "join": _join, "ledger": _ledger}
    return actions[options.action](options)


def _study(options: Any) -> int:
    """Write a study file."""
    from anchortm._util.files import write_whole
    from anchortm.cli.terminal import paragraph
    from anchortm.federated import Policy, Study

    if options.formula is None or options.members is None:
        raise InputError("site study needs --formula and --members")
    names = [name.strip() for name in options.members.split(",")]
    study = Study(options.formula, dict.fromkeys(names, ""))
    if len(study.members) < len(names):
        raise InputError("--members has a name twice")
    rules = [f"{name} = {_toml(value)}" for name, value in Policy().record().items()]
    lines = [
        f"formula = {_toml(study.formula)}",
        "# support = [1.0, 100.0]    # of the baseline; by default from a rounded histogram",
        '# missing = "drop"         # leave rows with missing values out',
        "",
        "[members]                  # public keys, which site keys prints; empty without masks",
        *(f'{_toml(name)} = ""' for name in study.members),
        "",
        "[policy]                   # rules that all sites keep in addition to their own",
        *rules,
    ]
    if Path(options.file).suffix != ".toml":
        raise InputError(f"the name of a study file must end in .toml, not {options.file}")
    write_whole(options.file, lambda path: path.write_text("\n".join(lines) + "\n", encoding="utf-8"))
    if not options.quiet:
        print(paragraph(f"a study with {len(study.members)} members is in {options.file}: add their public keys"))
    return 0


def _toml(value: Any) -> str:
    """Return text, a number or an empty list as TOML writes it; JSON writes them alike."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _keys(options: Any) -> int:
    """Write a private key, readable by its owner alone, and print the public one."""
    from anchortm.federated import Keys

    keys = Keys.generate()
    public = keys.public  # before the file is made: it needs the package cryptography
    try:
        file = os.open(options.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{options.file} exists, and a key is not replaced: name another file") from None
    except OSError as error:
        raise InputError(f"cannot write {options.file}: {error.strerror or error}") from None
    with os.fdopen(file, "w") as opened:
        opened.write(keys.secret.hex() + "\n")
    if not options.quiet:
        print("the public key, for the members in the study file:")
    print(public)
    return 0


def _site(options: Any) -> Site:
    """Return the site with its rows and rules."""
    import tomllib

    from anchortm._util.files import read_bytes
    from anchortm.cli.tables import read_table
    from anchortm.federated import Keys, Ledger, Policy, Site, Study

    absent = [f"--{name}" for name in ("data", "name") if getattr(options, name) is None]
    if absent:
        raise InputError(f"site {options.action} needs {' and '.join(absent)}")
    policy, keys = None, None
    if options.policy is not None:
        try:
            policy = Policy.of(tomllib.loads(read_bytes(options.policy, 2**20).decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{options.policy} is not TOML: {error}") from None
    if options.masks is not None:
        try:
            keys = Keys(bytes.fromhex(read_bytes(options.masks, 1000).decode().strip()))
        except ValueError:
            raise InputError(f"{options.masks} is not a private key: make one with anchortm site keys") from None
    ledger = Ledger(options.ledger or "ledger.jsonl") if options.action == "join" else None
    study = Study.of(options.file)
    return Site(read_table(options), options.name, policy, options.environments, keys, study=study, ledger=ledger)


def _check(options: Any) -> int:
    """Print what the site would refuse."""
    from anchortm.cli.models import MODELS
    from anchortm.cli.terminal import paragraph

    site = _site(options)
    assert site.study is not None  # noqa: S101
    scale = "continuous"
    if options.model is not None:
        import anchortm

        name, arguments = MODELS[options.model]
        scale = getattr(anchortm, name)(**arguments).specification().outcome
    found = site.check(scale=scale)
    if site.study.members and site.name not in site.study.members:
        found.append(f"{site.name} is not among the members of the study: {', '.join(site.study.members)}")
    for text in found:
        print(paragraph(f"refused: {text}", hanging="  "))
    if not found and not options.quiet:
        print(paragraph(f"{site.name} can take part: nothing in {options.file} would be refused before the fit"))
    return 1 if found else 0


def _join(options: Any) -> int:
    """Answer the questions of a hub."""
    from anchortm.cli.output import tell
    from anchortm.cli.sites import address_of, certificate_of
    from anchortm.federated import join_hub

    if options.hub is None:
        raise InputError("site join needs --hub, where the hub listens, such as hub.example.org:8443")
    host, port = address_of(options.hub, "--hub")
    certificate = certificate_of(options)
    site = _site(options)
    tell(options, f"{site.name} dials in to {host}:{port}")
    answered = join_hub(site, host, port, certificate, patience=options.patience)
    tell(options, f"answered {answered} questions; {site.ledger.path} has them")
    return 0


def _ledger(options: Any) -> int:
    """Print a ledger."""
    from anchortm.federated import Ledger

    if not Path(options.file).exists():
        raise InputError(f"there is no file {options.file}")
    ledger = Ledger(options.file)
    if options.output is not None:
        import pandas as pd

        from anchortm.cli.output import check_output, write_table

        check_output(options.output)
        table = pd.DataFrame([{**entry, "point": len(entry.get("point") or ())} for entry in ledger.entries])
        write_table(table, options.output)
        return 0
    if options.json:
        from anchortm.cli.output import as_json

        print(as_json(ledger.entries))
        return 0
    for line in ledger.lines():
        print(line)
    if not options.quiet:
        answered = sum(entry.get("outcome") == "answered" for entry in ledger.entries)
        numbers = sum(int(entry.get("numbers") or 0) for entry in ledger.entries)
        print(f"{len(ledger.entries)} questions, {answered} answered, {numbers} numbers sent")
    return 0
