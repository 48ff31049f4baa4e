"""`muniment answer`."""

from typing import Any

import click

from app.cli.lazy import epilog
from app.cli.options import Asker, asker_options, json_option
from app.cli.search import one_snapshot, question_options


@click.command(
    epilog=epilog(
        'muniment answer "How many days of leave do we get?" --as alice',
        'muniment answer "Who approves expenses?" --as bob --max-claims 2 --json',
        after="With --json one line for each event as it comes: packet, claims or abstention, summary. An abstention "
        "is an answer: the exit code is 0.",
    )
)
@click.argument("question")
@click.option("--max-claims", type=click.IntRange(1, 20), default=5, show_default=True)
@question_options
@asker_options
@json_option
def answer(question: str, max_claims: int, asker: Asker, as_json: bool, **narrowing: Any) -> None:
    """Answer QUESTION with claims, each checked against the evidence it cites; or abstain."""
    from app.cli.messages import as_dict
    from app.cli.packets import AnswerPrinter
    from app.cli.show import print_json_line

    one_snapshot(narrowing)
    printer = AnswerPrinter()
    with asker.client() as client:
        for event in client.answer(question, max_claims=max_claims, **narrowing):
            if as_json:
                print_json_line(as_dict(event))
            else:
                printer.print(event)
