"""Dynamic broker properties without effect: they are accepted, stored and described.

Tools set several properties in one request, which must not fail because of one of these.
"""

from functools import cache

from pykbroker.settings.checks import at_least, one_of
from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode
from pykbroker.settings.known_names import is_known_to_kafka
from pykbroker.settings.property import Property, converted
from pykbroker.settings.table import BROKER
from pykbroker.settings.unsupported import LISTENER_PREFIX, base_name

DOCUMENTATION = "Has no effect on this broker."

# Name, type, update mode, default (- for none), minimum (- for none).
_ROWS = """
background.threads INT cluster-wide 10 1
config.providers LIST cluster-wide '' -
follower.fetch.last.tiered.offset.enable BOOLEAN cluster-wide false -
group.coordinator.cached.buffer.max.bytes INT cluster-wide 1048588 524288
group.share.assignment.interval.ms INT cluster-wide 1000 0
group.streams.assignment.interval.ms INT cluster-wide 1000 0
log.cleaner.io.buffer.load.factor DOUBLE cluster-wide 0.9 -
log.cleaner.io.buffer.size INT cluster-wide 524288 0
metric.reporters LIST cluster-wide org.apache.kafka.common.metrics.JmxReporter -
num.network.threads INT cluster-wide 3 1
principal.builder.class CLASS per-broker - -
remote.fetch.max.wait.ms INT cluster-wide 500 1
remote.list.offsets.request.timeout.ms LONG cluster-wide 30000 1
remote.log.index.file.cache.total.size.bytes LONG cluster-wide 1073741824 1
remote.log.manager.copier.thread.pool.size INT cluster-wide 10 1
remote.log.manager.copy.max.bytes.per.second LONG cluster-wide 9223372036854775807 1
remote.log.manager.expiration.thread.pool.size INT cluster-wide 10 1
remote.log.manager.fetch.max.bytes.per.second LONG cluster-wide 9223372036854775807 1
remote.log.manager.follower.thread.pool.size INT cluster-wide 2 1
remote.log.reader.threads INT cluster-wide 10 1
replica.alter.log.dirs.io.max.bytes.per.second LONG cluster-wide 9223372036854775807 0
sasl.enabled.mechanisms LIST per-broker GSSAPI -
sasl.jaas.config PASSWORD per-broker - -
sasl.kerberos.kinit.cmd STRING per-broker /usr/bin/kinit -
sasl.kerberos.min.time.before.relogin LONG per-broker 60000 -
sasl.kerberos.principal.to.local.rules LIST per-broker DEFAULT -
sasl.kerberos.service.name STRING per-broker - -
sasl.kerberos.ticket.renew.jitter DOUBLE per-broker 0.05 -
sasl.kerberos.ticket.renew.window.factor DOUBLE per-broker 0.8 -
sasl.login.refresh.buffer.seconds SHORT per-broker 300 -
sasl.login.refresh.min.period.seconds SHORT per-broker 60 -
sasl.login.refresh.window.factor DOUBLE per-broker 0.8 -
sasl.login.refresh.window.jitter DOUBLE per-broker 0.05 -
sasl.mechanism.inter.broker.protocol STRING per-broker GSSAPI -
share.coordinator.cached.buffer.max.bytes INT cluster-wide 1048588 524288
ssl.cipher.suites LIST per-broker '' -
ssl.client.auth STRING per-broker none -
ssl.enabled.protocols LIST per-broker TLSv1.2,TLSv1.3 -
ssl.endpoint.identification.algorithm STRING per-broker https -
ssl.engine.factory.class CLASS per-broker - -
ssl.key.password PASSWORD per-broker - -
ssl.keymanager.algorithm STRING per-broker SunX509 -
ssl.keystore.certificate.chain PASSWORD per-broker - -
ssl.keystore.key PASSWORD per-broker - -
ssl.keystore.location STRING per-broker - -
ssl.keystore.password PASSWORD per-broker - -
ssl.keystore.type STRING per-broker JKS -
ssl.protocol STRING per-broker TLSv1.3 -
ssl.provider STRING per-broker - -
ssl.secure.random.implementation STRING per-broker - -
ssl.trustmanager.algorithm STRING per-broker PKIX -
ssl.truststore.certificates PASSWORD per-broker - -
ssl.truststore.location STRING per-broker - -
ssl.truststore.password PASSWORD per-broker - -
ssl.truststore.type STRING per-broker JKS -
"""


def no_effect_row(name: str) -> Property | None:
    """Returns None for properties that are read-only or unknown to Apache Kafka."""
    row = no_effect_table().get(name)
    if row is not None or not is_known_to_kafka(name):
        return row
    if name.startswith(LISTENER_PREFIX):
        base = BROKER.get(base_name(name)) or no_effect_table().get(base_name(name))
        return base._replace(name=name, documentation=DOCUMENTATION) if base else _plugin_row(name)
    return _plugin_row(name) if name.startswith(PLUGIN_PREFIXES) else None


PLUGIN_PREFIXES = ("config.providers.", "rsm.config.", "rlmm.config.")


@cache
def no_effect_table() -> dict[str, Property]:
    return {row.name: row for row in map(_parsed, _ROWS.strip().splitlines())}


def _parsed(line: str) -> Property:
    name, kind, mode, default, minimum = line.split()
    row = _plugin_row(name)._replace(type=ConfigType[kind], update_mode=UpdateMode(mode))
    if minimum != "-":
        row = row._replace(check=at_least(int(minimum)))
    if name == "ssl.client.auth":
        row = row._replace(check=one_of("required", "requested", "none"))
    return row if default == "-" else row._replace(default=converted(row.type, default.strip("'")))


def _plugin_row(name: str) -> Property:
    """Returns a row for a plugin property. Its value is never described: it can be a secret."""
    return Property(
        name,
        ConfigType.PASSWORD,
        None,
        None,
        Importance.LOW,
        UpdateMode.CLUSTER_WIDE,
        DOCUMENTATION,
    )
