"""`tidemill doctor`: whether this machine is fit to run a broker."""

from typing import Annotated

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.failure import ExitCode


def register(application: typer.Typer) -> None:
    application.command()(doctor)


def doctor(
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The data directory; it need not exist yet.")
    ] = "./tidemill-data",
    as_json: JsonOption = False,
) -> None:
    """
    Check what a broker needs of this machine, and say what to do.

    It looks at Python, the compiled code, Java (for Spark), limits, ports, the clock and the kernel, and measures for
    at most two seconds how long the disk of the data directory takes to sync.  The exit code is 1 if a check fails;
    a warning does not prevent a broker from running.

    Examples:

      tidemill doctor

      tidemill doctor --data /var/lib/tidemill

      tidemill doctor --json | jq 'select(.status != "ok")'
    """
    from tidemill.cli.doctor_checks import Status
    from tidemill.cli.doctor_machine import all_checks  # imported here because the import is slow (decision 12)
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    checks = list(all_checks(data))
    with pipe_may_close():
        if as_json:
            for check in checks:
                row = {"check": check.name, "status": check.status.value, "found": check.found, "fix": check.fix}
                print_json(row)
        else:
            print_table(
                ("check", "status", "found", "what to do"),
                [(check.name, check.status.value, check.found, check.fix or "") for check in checks],
            )
    if any(check.status is Status.FAIL for check in checks):
        raise typer.Exit(ExitCode.FAILED)
