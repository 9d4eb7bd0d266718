"""CreateAcls: rejected, because the broker has no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.describe_acls import NO_AUTHORIZER
from pykbroker_protocol.messages.create_acls import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.errors import Refusal
    from pykbroker_protocol.messages.create_acls import CreateAclsRequest


def handle(request: CreateAclsRequest, _call: Call) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=NO_AUTHORIZER.code, error_message=NO_AUTHORIZER.message)
    return CreateAclsResponse(results=[refused for _ in request.creations])


def failed(request: CreateAclsRequest, refusal: Refusal, _call: Call) -> CreateAclsResponse:
    result = AclCreationResult(error_code=refusal.code, error_message=refusal.message)
    return CreateAclsResponse(results=[result for _ in request.creations])
