"""Client side of the Kafka protocol: requests to brokers of this or another cluster.

`connection` sends and receives frames on one TCP connection. `broker_connection` adds messages in
the versions that the broker supports. `cluster_client` adds metadata, leaders and retries;
`coordinator`, `producer`, `consumer` and `group_member` use it.
"""
