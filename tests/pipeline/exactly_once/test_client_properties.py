"""Java client properties are translated for librdkafka."""

import pytest
from confluent_kafka import Producer

from pykbroker.pipeline.client_properties import librdkafka_properties, librdkafka_settings
from pykbroker.pipeline.topic_target import CannotPublish

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password='


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"compression.type": "zstd"}, {"compression.type": "zstd"}),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM + r'"p=\";q";'},
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "a", "sasl.password": 'p=";q'},
        ),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        ({"max.request.size": "5000000"}, {"message.max.bytes": "5000000"}),
    ],
)
def test_java_properties_are_translated(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert librdkafka_properties(java) == librdkafka
    if "ssl.ca.location" not in librdkafka:  # it would open the file
        Producer(librdkafka)


@pytest.mark.parametrize(
    "java", [{"ssl.keystore.type": "JKS"}, {"sasl.jaas.config": "Krb5LoginModule required;"}]
)
def test_unsupported_properties_are_rejected(java: dict[str, str]) -> None:
    with pytest.raises(CannotPublish):
        librdkafka_properties(java)


JAVA_ONLY = (
    "buffer.memory",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "fetch.max.wait.ms",
    "interceptor.classes",
    "max.block.ms",
    "max.poll.records",
    "metrics.num.samples",
    "receive.buffer.bytes",
    "sasl.login.class",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.truststore.password",
)
SUPPORTED = (
    "client.rack",
    "compression.type",
    "max.request.size",
    "request.timeout.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.truststore.type",
)


def test_properties_unknown_to_librdkafka_are_dropped() -> None:
    properties = dict.fromkeys((*JAVA_ONLY, *SUPPORTED), "x")
    assert tuple(librdkafka_settings(properties)) == SUPPORTED
