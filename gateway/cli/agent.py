"""``gateway agent``."""

import click

from gateway.agent import demo
from gateway.cli.target import redis_options, redis_target

__all__ = ["command"]


@click.command
@click.option("--model", metavar="NAME", help="A model to drive through OpenAI's API instead of the built-in rules.")
@click.option("--base-url", metavar="URL", help="Where that API is.  [default: OPENAI_BASE_URL, else OpenAI's own]")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="INTEGER",
    help="Topics that are answered at once.",
)
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input ends.")
@redis_options
def command(
    *,
    model: str | None,
    base_url: str | None,
    concurrency: int,
    key_prefix: str,
    until_eof: bool,
    redis_url: str | None,
) -> None:
    """Answer the messages that people send to topics, until SIGINT or SIGTERM: the worker of the demo agent.

    With OPENAI_API_KEY, OPENAI_BASE_URL or a model of your own it drives that model, else its answers come from rules.
    """
    demo.main(
        redis_url=redis_target(redis_url),
        key_prefix=key_prefix,
        model=model,
        base_url=base_url,
        concurrency=concurrency,
        until_eof=until_eof,
    )
