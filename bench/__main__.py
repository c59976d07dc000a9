"""`python -m bench NAME ...` from the root of the repository; without a name it lists the benches."""

from __future__ import annotations

import importlib
import sys

BENCHES = {
    "kafka": "Longhall beside Apache Kafka 4: throughput, latency, start, memory (about eight minutes; --quick: one)",
    "growth": "many partitions, idle partitions, a long log, cold readers (--quick: smaller)",
    "sqs": "Longhall's SQS door beside ElasticMQ, moto and a bare HTTP loop (about ten minutes; --quick: one)",
    "forwarding": "the SQS door at a node that does not lead and at workers, beside the leader (about three minutes)",
    "amqp": "the AMQP and STOMP doors beside RabbitMQ, NATS and Redis (about fifteen minutes; --quick: three)",
    "queues": "queues that grow: ten million waiting, groups, idle queues, delays and leases (--quick: smaller)",
    "cluster": "three nodes beside three of Apache Kafka: throughput, latency, many queues, a hot one, a killed leader",
    "scale": "one host and three, each held to a third of a core: how much more do three take (about five minutes)",
    "spark": "reading through Spark beside Parquet and Spark's Kafka connector (about ten minutes; --quick: two)",
    "sealed": "a sealed topic beside a clear one: how much of the throughput is left (about two minutes)",
    "tenants": "a tenant beside a loud one: its throughput and its 99th percentile (about two minutes)",
    "builds": "two builds of Longhall in alternation: is anything slower than it was?",
    "instructions": "instructions a request, which a busy machine does not disturb, perhaps beside another build",
    "profile": "where the node's time goes under a chosen load: py-spy, perf or cProfile",
    "report": "render docs/benchmarks.md again from the kept results",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in BENCHES:
        print("usage: python -m bench NAME [--help | options]\n")
        for each, words in BENCHES.items():
            print(f"  {each:8} {words}")
        return 0 if name in ("", "-h", "--help") else 2
    importlib.import_module(f"bench.{name}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
