"""Unsupported security and plugin properties: the broker does not start if one is set.

Ignoring them would be dangerous: for example, clients could connect without authentication. Default
and empty values are accepted.
"""

from collections.abc import Iterable, Mapping

from pykbroker.settings.property import split_list

AUTHORIZATION, SASL, TLS = "authorization", "SASL authentication", "TLS"

_UNSUPPORTED = (  # the first matching prefix applies
    ("authorizer.", AUTHORIZATION),
    ("sasl.", SASL),
    ("connections.max.reauth.ms", SASL),
    ("principal.builder.class", "a principal builder"),
    ("ssl.", TLS),
    ("security.providers", TLS),
    ("security.inter.broker.protocol", "an encrypted or authenticated listener"),
    ("delegation.token.secret.key", "a delegation token secret"),
    ("alter.config.policy.class.name", "a configuration policy"),
    ("create.topic.policy.class.name", "a topic policy"),
    ("client.quota.callback.class", "a client quota callback"),
    ("config.providers", "a configuration provider"),  # without them, ${...} would be literal text
    ("remote.log.storage.system.enable", "tiered storage"),
)

_HARMLESS = {
    "connections.max.reauth.ms": "0",
    "principal.builder.class": (
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
    "remote.log.storage.system.enable": "false",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.mechanism.controller.protocol": "GSSAPI",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.jti.include": "false",
    "sasl.oauthbearer.jwt.retriever.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"
    ),
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "security.inter.broker.protocol": "PLAINTEXT",
    "ssl.allow.dn.changes": "false",
    "ssl.allow.san.changes": "false",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.keystore.type": "JKS",
    "ssl.principal.mapping.rules": "DEFAULT",
    "ssl.protocol": "TLSv1.3",
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.truststore.type": "JKS",
}
"""Apache Kafka's defaults, which are accepted, like empty values."""

_TUNING = frozenset({
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.server.max.receive.size",
})  # fmt: skip
"""Intervals and sizes, which do not enable anything."""

LISTENER_PREFIX = "listener.name."


def refuse_unsupported(properties: Mapping[str, str]) -> str | None:
    """Returns one error message for all unsupported properties, or None if there is none."""
    found = {
        name: feature
        for name, text in properties.items()
        if (feature := unsupported_feature(name)) and not _is_harmless(name, text)
    }
    if not found:
        return None
    names, kinds = sorted(found), list(dict.fromkeys(found[name] for name in sorted(found)))
    verb = "is" if len(kinds) == 1 else "are"
    removed = "this property" if len(names) == 1 else "these properties"
    return f"{', '.join(names)}: {' and '.join(kinds)} {verb} not supported; remove {removed}"


def unsupported_feature(name: str) -> str | None:
    """Returns the unsupported feature of a property, which can have a listener prefix."""
    return next(filter(None, map(_feature, _base_names(name))), None)


def base_name(name: str) -> str:
    """Returns the property in `listener.name.NAME.property`; other names are returned unchanged."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2]


def _base_names(name: str) -> Iterable[str]:
    """Yields the property, with and without the mechanism that precedes it in SASL properties."""
    base = base_name(name)
    yield base
    if base != name:
        yield base.partition(".")[2]


def _feature(name: str) -> str | None:
    if name in _TUNING:
        return None
    return next((feature for prefix, feature in _UNSUPPORTED if name.startswith(prefix)), None)


def _is_harmless(name: str, text: str) -> bool:
    value, safe = split_list(text.strip()), _HARMLESS.get(base_name(name), "")
    return not any(value) or {it.lower() for it in value} == {it.lower() for it in split_list(safe)}
