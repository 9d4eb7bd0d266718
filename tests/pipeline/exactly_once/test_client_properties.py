"""What Spark's clients are told, librdkafka can be told, too."""

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
def test_properties_of_java_have_a_name_in_librdkafka(
    java: dict[str, str], librdkafka: dict[str, str]
) -> None:
    assert librdkafka_properties(java) == librdkafka
    if "ssl.ca.location" not in librdkafka:  # it would look for the file
        Producer(librdkafka)


@pytest.mark.parametrize(
    "java", [{"ssl.keystore.type": "JKS"}, {"sasl.jaas.config": "Krb5LoginModule required;"}]
)
def test_what_librdkafka_cannot_do_is_refused(java: dict[str, str]) -> None:
    with pytest.raises(CannotPublish):
        librdkafka_properties(java)


OF_JAVA = (
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
OF_BOTH = (
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


def test_of_what_all_clients_are_told_librdkafka_hears_what_it_knows() -> None:
    told = dict.fromkeys((*OF_JAVA, *OF_BOTH), "x")
    assert tuple(librdkafka_settings(told)) == OF_BOTH
