"""Sessions of tool commands that are run on both brokers.

A line is a tool and its arguments; the address of the broker is added. `{topic}`, `{group}` and
`{file}` are unique to the session, `{data}` is the data directory of the broker.
"""

from __future__ import annotations

FILES = {
    "delete": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"offset":2}]}',
    "elect": '{"partitions":[{"topic":"{topic}","partition":0}]}',
    "generate": '{"version":1,"topics":[{"topic":"{topic}"}]}',
    "stay": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"replicas":[1]}]}',
    "away": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"replicas":[9]}]}',
    "unknown": '{"version":1,"partitions":[{"topic":"no-such","partition":0,"replicas":[1]}]}',
    "directory": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"replicas":[1],'
    '"log_dirs":["{data}"]}]}',
    "nowhere": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"replicas":[1],'
    '"log_dirs":["/no/such/directory"]}]}',
    "client": "client.id=operator\n",
    "offsets": "{topic},0,1\n{topic},1,2\n",
}
"""Input files of the tools, by the name after `file:`."""

SESSIONS = {
    "topics": """
        topics --create --topic {topic}-new --partitions 2
        topics --create --topic {topic}-new
        topics --create --topic {topic}-new --if-not-exists
        topics --create --topic {topic}-set --config cleanup.policy=compact
        topics --create --topic {topic}-placed --replica-assignment 1,1
        topics --create --topic {topic}-wide --replication-factor 3
        topics --create --topic {topic}-odd --config no.such.property=1
        topics --create --topic {topic}/bad
        topics --list --topic {topic}.*
        topics --describe --topic {topic}.*
        topics --describe --topic {topic}-no
        topics --describe --topic {topic}-new --under-replicated-partitions
        topics --describe --topic {topic}-new --unavailable-partitions
        topics --describe --topic {topic}-new --under-min-isr-partitions
        topics --describe --topic {topic}-new --at-min-isr-partitions
        topics --alter --topic {topic}-new --partitions 4
        topics --alter --topic {topic}-new --partitions 1
        topics --alter --topic {topic}-no --partitions 3
        topics --describe --topic {topic}-new
        topics --delete --topic {topic}-new
        topics --delete --topic {topic}-new --if-exists
        topics --delete --topic {topic}-no
    """,
    "configs of topics": """
        configs --describe --topic {topic}
        configs --describe --topic {topic} --all
        configs --alter --topic {topic} --add-config retention.ms=9,cleanup.policy=[compact,delete]
        configs --describe --topic {topic}
        configs --alter --topic {topic} --delete-config retention.ms
        configs --alter --topic {topic} --delete-config retention.ms
        configs --alter --topic {topic} --add-config retention.ms=soon
        configs --alter --topic {topic}-no --add-config retention.ms=1
        configs --describe --topic {topic}
    """,
    "configs of brokers": """
        configs --alter --broker 1 --add-config log.cleaner.threads=2
        configs --describe --broker 1
        configs --alter --broker 1 --delete-config log.cleaner.threads
        configs --alter --broker 1 --add-config node.id=7
        configs --alter --broker-defaults --add-config message.max.bytes=2000000
        configs --describe --broker-defaults
        configs --alter --broker-defaults --delete-config message.max.bytes
        configs --alter --broker-logger 1 --add-config root=WARN
        configs --alter --broker-logger 1 --add-config root=INFO
        configs --alter --broker-logger 1 --add-config root=LOUD
        configs --alter --broker-logger 1 --delete-config root
        configs --alter --broker-logger 1 --add-config no.such.logger=INFO
    """,
    "configs of groups": """
        configs --alter --group {group} --add-config consumer.session.timeout.ms=50000
        configs --describe --group {group}
        configs --alter --group {group} --add-config consumer.session.timeout.ms=1
        configs --alter --group {group} --delete-config consumer.session.timeout.ms
        configs --describe --group {group}
    """,
    "consumer groups": """
        consumer-groups --reset-offsets --group {group} --topic {topic} --to-latest --execute
        consumer-groups --describe --group {group}
        consumer-groups --describe --group {group} --state
        consumer-groups --describe --group {group} --members --verbose
        consumer-groups --describe --group {group}-no
        consumer-groups --reset-offsets --group {group} --topic {topic} --to-earliest --dry-run
        consumer-groups --reset-offsets --group {group} --topic {topic}:0 --shift-by -1 --execute
        consumer-groups --reset-offsets --group {group} --from-file file:offsets --execute
        consumer-groups --reset-offsets --group {group} --topic {topic} --to-current --export
        consumer-groups --delete-offsets --group {group} --topic {topic}:0
        consumer-groups --describe --group {group} --offsets
        consumer-groups --delete --group {group}
        consumer-groups --delete --group {group}-no
        streams-reset --application-id {group} --input-topics {topic} --to-offset 1 --dry-run
        streams-reset --application-id {group} --input-topics {topic} --to-earliest
        consumer-groups --describe --group {group}
        share-groups --list
        streams-groups --list
    """,
    "offsets and records": """
        get-offsets --topic {topic}
        get-offsets --topic {topic} --time earliest
        get-offsets --topic {topic} --time max-timestamp
        get-offsets --topic {topic} --time earliest-local
        get-offsets --topic {topic} --time latest-tiered
        get-offsets --topic {topic} --time 1700000000001
        get-offsets --topic-partitions {topic}:1
        get-offsets --topic {topic}-no
        delete-records --offset-json-file file:delete
        get-offsets --topic {topic} --time earliest
        log-dirs --describe --topic-list {topic}
        log-dirs --describe --topic-list {topic} --broker-list 1
        log-dirs --describe --broker-list 9
    """,
    "leaders and moves": """
        leader-election --election-type preferred --all-topic-partitions
        leader-election --election-type preferred --topic {topic} --partition 0
        leader-election --election-type unclean --topic {topic} --partition 0
        leader-election --election-type preferred --topic {topic}-no --partition 0
        leader-election --election-type preferred --path-to-json-file file:elect
        reassign-partitions --list
        reassign-partitions --generate --topics-to-move-json-file file:generate --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file file:generate --broker-list 1,9
        reassign-partitions --execute --reassignment-json-file file:stay
        reassign-partitions --verify --reassignment-json-file file:stay
        reassign-partitions --execute --reassignment-json-file file:away
        reassign-partitions --execute --reassignment-json-file file:unknown
        reassign-partitions --execute --reassignment-json-file file:directory
        reassign-partitions --verify --reassignment-json-file file:directory
        reassign-partitions --execute --reassignment-json-file file:nowhere --timeout 500
        topics --describe --topic {topic}
    """,
    "the cluster": """
        metadata-quorum describe --status
        metadata-quorum describe --replication
        cluster cluster-id
        cluster list-endpoints
        cluster unregister --id 99
        features version-mapping
        features upgrade --feature transaction.version=2
        features upgrade --feature no.such.feature=1
        features downgrade --feature group.version=0 --dry-run
    """,
    "security": """
        acls --list
        acls --list --topic {topic}
        acls --add --allow-principal User:driver --operation Read --topic {topic}
        acls --remove --allow-principal User:driver --operation Read --topic {topic} --force
        delegation-tokens --create --max-life-time-period -1 --command-config file:client
        delegation-tokens --describe --command-config file:client
        delegation-tokens --renew --renew-time-period -1 --hmac AAAA --command-config file:client
        delegation-tokens --expire --expiry-time-period -1 --hmac AAAA --command-config file:client
    """,
    "transactions": """
        transactions describe --transactional-id {group}
        transactions describe-producers --topic {topic} --partition 1
        transactions find-hanging --broker-id 1
        transactions abort --topic {topic} --partition 0 --start-offset 0
        transactions forceTerminateTransaction --transactionalId {group}
    """,
}
