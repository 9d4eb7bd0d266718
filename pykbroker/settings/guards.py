"""Properties that protect data or access and are not supported: a broker refuses to run with them.

Ignoring one would be worse than not starting: clients would be let in without authentication, or
records would have fewer copies than the operator asked for. A value that asks for nothing is fine.
"""

from collections.abc import Iterable, Mapping

from pykbroker.settings.property import split_list

AUTHORIZATION, SASL, TLS = "authorization", "SASL authentication", "TLS"

_GUARDED = (  # the first beginning that fits
    ("authorizer.", AUTHORIZATION),
    ("sasl.", SASL),
    ("connections.max.reauth.ms", SASL),
    ("principal.builder.class", "a principal builder"),
    ("ssl.", TLS),
    ("security.providers", TLS),
    ("security.inter.broker.protocol", "an encrypted or authenticated listener"),
    ("delegation.token.secret.key", "delegation tokens"),
    ("alter.config.policy.class.name", "configuration policies"),
    ("create.topic.policy.class.name", "topic policies"),
    ("client.quota.callback.class", "client quotas"),
    ("config.providers", "configuration providers"),  # without them, ${...} is taken literally
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
"""Apache Kafka's defaults: they ask for nothing. So does an empty value."""

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
"""Intervals and sizes of a protection: they ask for none by themselves."""

LISTENER_PREFIX = "listener.name."


def refuse_guards(given: Mapping[str, str]) -> str | None:
    """The sentence for all properties that ask for a protection, or None if none does."""
    asked = {
        name: kind
        for name, text in given.items()
        if (kind := guarded_by(name)) and not _is_harmless(name, text)
    }
    if not asked:
        return None
    names, kinds = sorted(asked), list(dict.fromkeys(asked[name] for name in sorted(asked)))
    verb, pronoun = "is" if len(kinds) == 1 else "are", "it" if len(names) == 1 else "them"
    return (
        f"{', '.join(names)}: {' and '.join(kinds)} {verb} not supported; "
        f"remove {pronoun} to run without"
    )


def guarded_by(name: str) -> str | None:
    """The protection that a property belongs to, also if it is set for one listener only."""
    return next(filter(None, map(_kind, _base_names(name))), None)


def base_name(name: str) -> str:
    """The property that is meant by `listener.name.NAME.property`; others are themselves."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2]


def _base_names(name: str) -> Iterable[str]:
    """SASL properties of a listener may also name the mechanism before the property."""
    base = base_name(name)
    yield base
    if base != name:
        yield base.partition(".")[2]


def _kind(name: str) -> str | None:
    if name in _TUNING:
        return None
    return next((kind for beginning, kind in _GUARDED if name.startswith(beginning)), None)


def _is_harmless(name: str, text: str) -> bool:
    value, safe = split_list(text.strip()), _HARMLESS.get(base_name(name), "")
    return not any(value) or {it.lower() for it in value} == {it.lower() for it in split_list(safe)}
