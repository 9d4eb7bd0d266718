"""ACLs, credentials and tokens in a cluster without security."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pykbroker_protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pykbroker_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pykbroker_protocol.messages.describe_acls import DescribeAclsRequest
from pykbroker_protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pykbroker_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pykbroker_protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pykbroker_protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.apis.conversations.catalog import conversation

if TYPE_CHECKING:
    from tests.apis.transcript import Transcript

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3

EVERY_RULE = DeleteAclsFilter(
    resource_type_filter=ANY,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)
RULE = AclCreation(
    resource_type=TOPIC,
    resource_name="trucks",
    resource_pattern_type=LITERAL,
    principal="User:driver",
    host="*",
    operation=READ,
    permission_type=ALLOW,
)


@conversation
def acls_are_rejected(broker: Transcript) -> None:
    listed = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    for version in (1, 2, 3):
        broker.ask(listed, version)
        for count in (0, 1, 2):
            broker.ask(CreateAclsRequest(creations=[RULE] * count), version, note=str(count))
            broker.ask(DeleteAclsRequest(filters=[EVERY_RULE] * count), version, note=str(count))
        broker.ask(
            CreateAclsRequest(creations=[RULE.replace(principal="driver", host="")]),
            version,
            note="a rule that makes no sense",
        )


@conversation
def delegation_tokens_are_rejected(broker: Transcript) -> None:
    renewer = CreatableRenewers(principal_type="User", principal_name="driver")
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="driver")
    for version in (1, 2, 3):
        for renewers in ((), (renewer,)):
            created = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
            broker.ask(created, version, note=str(len(renewers)))
        for owners in (None, (), (owner,)):
            request = DescribeDelegationTokenRequest(owners=owners)
            broker.ask(request, version, note=str(owners and len(owners)))
    for version in (1, 2):
        for hmac in (b"", b"secret"):
            renewed = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1)
            broker.ask(renewed, version, note=repr(hmac))
            ended = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
            broker.ask(ended, version, note=repr(hmac))


@conversation
def no_user_has_credentials(broker: Transcript) -> None:
    broker.ask(DescribeUserScramCredentialsRequest(users=None), 0, note="all")
    for names in ((), ("driver",), ("clerk", "driver"), ("driver", "driver"), ("",)):
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=it) for it in names])
        broker.ask(request, 0, note=str(names))
