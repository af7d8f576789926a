"""Reads topics and reports their failed and lost runs: python examples/reader.py TOPIC…"""

import asyncio
import os
import sys

from gateway import Client


async def main(topics: list[str]) -> None:
    async with Client(os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000")) as client, asyncio.TaskGroup() as tasks:
        for topic in topics:
            tasks.create_task(watch(client, topic))


async def watch(client: Client, topic: str) -> None:
    reported = set()
    async for update in client.subscribe(topic):
        for run in update.mirror.runs:
            if run["status"] in {"failed", "lost"} and run["run"] not in reported:
                reported.add(run["run"])
                print(f"{topic}: {run['agent']} {run['status']}: {run['error']}", flush=True)


asyncio.run(main(sys.argv[1:]))
