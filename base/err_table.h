/* Every error that ottla gives, one row each: the Kafka protocol's codes first, then those that never leave the house
 * under their own name (kafka = what a Kafka client is told instead). Codes are facts of the Kafka 4.4 protocol.
 *
 *    name                                  kafka http grpc retriable text */
#define OT_KAFKA_ERRORS(X) \
    X(UNKNOWN_SERVER_ERROR,                        -1, 500, 13, false, "the server met an error it has no name for") \
    X(NONE,                                         0, 200,  0, false, "no error") \
    X(OFFSET_OUT_OF_RANGE,                          1, 416, 11, false, "the offset is outside the log of this partition") \
    X(CORRUPT_MESSAGE,                              2, 500, 13, true, "the record batch fails its checksum or its layout is wrong") \
    X(UNKNOWN_TOPIC_OR_PARTITION,                   3, 404,  5, true, "there is no such topic or partition here") \
    X(INVALID_FETCH_SIZE,                           4, 400,  3, false, "the fetch size asked for makes no sense") \
    X(LEADER_NOT_AVAILABLE,                         5, 503, 14, true, "the partition has no leader at the moment") \
    X(NOT_LEADER_OR_FOLLOWER,                       6, 503,  9, true, "this broker does not lead the partition, or holds no replica of it") \
    X(REQUEST_TIMED_OUT,                            7, 504,  4, true, "the request ran out of time") \
    X(BROKER_NOT_AVAILABLE,                         8, 503, 14, false, "the broker is not available") \
    X(REPLICA_NOT_AVAILABLE,                        9, 503, 14, true, "the replica asked for is not available") \
    X(MESSAGE_TOO_LARGE,                           10, 413,  8, false, "the record batch is larger than the topic allows") \
    X(STALE_CONTROLLER_EPOCH,                      11, 400,  3, false, "the controller epoch has been superseded") \
    X(OFFSET_METADATA_TOO_LARGE,                   12, 400,  3, false, "the metadata committed with an offset is too long") \
    X(NETWORK_EXCEPTION,                           13, 503, 14, true, "the connection broke before an answer came") \
    X(COORDINATOR_LOAD_IN_PROGRESS,                14, 503, 14, true, "the coordinator is still loading its state") \
    X(COORDINATOR_NOT_AVAILABLE,                   15, 503, 14, true, "no coordinator is available yet") \
    X(NOT_COORDINATOR,                             16, 503, 14, true, "this broker is not the coordinator asked for") \
    X(INVALID_TOPIC_EXCEPTION,                     17, 400,  3, false, "the topic name is not allowed, or the topic may not be used so") \
    X(RECORD_LIST_TOO_LARGE,                       18, 413,  8, false, "the record batches are larger than a segment") \
    X(NOT_ENOUGH_REPLICAS,                         19, 503, 14, true, "fewer replicas are in sync than the topic requires") \
    X(NOT_ENOUGH_REPLICAS_AFTER_APPEND,            20, 504,  4, true, "the records were written, but too few replicas stayed in sync") \
    X(INVALID_REQUIRED_ACKS,                       21, 400,  3, false, "acks must be 0, 1 or all") \
    X(ILLEGAL_GENERATION,                          22, 400,  3, false, "the generation of the group has moved on") \
    X(INCONSISTENT_GROUP_PROTOCOL,                 23, 400,  3, false, "the member shares no protocol with its group") \
    X(INVALID_GROUP_ID,                            24, 400,  3, false, "the group id is not allowed") \
    X(UNKNOWN_MEMBER_ID,                           25, 404,  5, false, "the group does not know this member") \
    X(INVALID_SESSION_TIMEOUT,                     26, 400,  3, false, "the session timeout is outside what the broker allows") \
    X(REBALANCE_IN_PROGRESS,                       27, 409,  9, false, "the group is rebalancing: join again") \
    X(INVALID_COMMIT_OFFSET_SIZE,                  28, 400,  3, false, "the offset commit is too large to be stored") \
    X(TOPIC_AUTHORIZATION_FAILED,                  29, 403,  7, false, "not allowed on this topic") \
    X(GROUP_AUTHORIZATION_FAILED,                  30, 403,  7, false, "not allowed on this group") \
    X(CLUSTER_AUTHORIZATION_FAILED,                31, 403,  7, false, "not allowed on this cluster") \
    X(INVALID_TIMESTAMP,                           32, 400,  3, false, "a record timestamp is further off than the topic allows") \
    X(UNSUPPORTED_SASL_MECHANISM,                  33, 400,  3, false, "the SASL mechanism is not enabled here") \
    X(ILLEGAL_SASL_STATE,                          34, 400,  3, false, "the request does not fit the state of authentication") \
    X(UNSUPPORTED_VERSION,                         35, 400,  3, false, "this version of the request is not served") \
    X(TOPIC_ALREADY_EXISTS,                        36, 409,  9, false, "a topic of that name exists already") \
    X(INVALID_PARTITIONS,                          37, 400,  3, false, "the number of partitions is not possible") \
    X(INVALID_REPLICATION_FACTOR,                  38, 400,  3, false, "the replication factor is below one or above the number of brokers") \
    X(INVALID_REPLICA_ASSIGNMENT,                  39, 400,  3, false, "the replica assignment is not possible") \
    X(INVALID_CONFIG,                              40, 400,  3, false, "a configuration key or value is not valid") \
    X(NOT_CONTROLLER,                              41, 503, 14, true, "this broker is not the controller") \
    X(INVALID_REQUEST,                             42, 400,  3, false, "the request contradicts itself or cannot be understood") \
    X(UNSUPPORTED_FOR_MESSAGE_FORMAT,              43, 400,  3, false, "the stored record format cannot do this") \
    X(POLICY_VIOLATION,                            44, 403,  7, false, "a policy of the broker forbids this") \
    X(OUT_OF_ORDER_SEQUENCE_NUMBER,                45, 400,  3, false, "a batch of this producer is missing before this one") \
    X(DUPLICATE_SEQUENCE_NUMBER,                   46, 400,  3, false, "this batch of the producer was written before") \
    X(INVALID_PRODUCER_EPOCH,                      47, 400,  3, false, "the producer epoch has been superseded") \
    X(INVALID_TXN_STATE,                           48, 400,  3, false, "the transaction is not in a state for this") \
    X(INVALID_PRODUCER_ID_MAPPING,                 49, 400,  3, false, "the producer id does not belong to this transactional id") \
    X(INVALID_TRANSACTION_TIMEOUT,                 50, 400,  3, false, "the transaction timeout is longer than the broker allows") \
    X(CONCURRENT_TRANSACTIONS,                     51, 409,  9, true, "the transaction before is still being completed") \
    X(TRANSACTION_COORDINATOR_FENCED,              52, 400,  3, false, "the transaction coordinator has been superseded") \
    X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED,       53, 403,  7, false, "not allowed to use this transactional id") \
    X(SECURITY_DISABLED,                           54, 400,  3, false, "no authorizer is configured") \
    X(OPERATION_NOT_ATTEMPTED,                     55, 400,  3, false, "not tried, since another part of the request failed") \
    X(KAFKA_STORAGE_ERROR,                         56, 500, 13, true, "the disk of this replica failed") \
    X(LOG_DIR_NOT_FOUND,                           57, 404,  5, false, "the broker has no such log directory") \
    X(SASL_AUTHENTICATION_FAILED,                  58, 401, 16, false, "authentication failed") \
    X(UNKNOWN_PRODUCER_ID,                         59, 400,  3, false, "nothing is known of this producer id any more") \
    X(REASSIGNMENT_IN_PROGRESS,                    60, 409,  9, false, "the partition is being reassigned") \
    X(DELEGATION_TOKEN_AUTH_DISABLED,              61, 400,  3, false, "delegation tokens are not enabled") \
    X(DELEGATION_TOKEN_NOT_FOUND,                  62, 400,  3, false, "there is no such delegation token") \
    X(DELEGATION_TOKEN_OWNER_MISMATCH,             63, 400,  3, false, "the delegation token belongs to somebody else") \
    X(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,        64, 400,  3, false, "delegation tokens cannot be asked for over this connection") \
    X(DELEGATION_TOKEN_AUTHORIZATION_FAILED,       65, 403,  7, false, "not allowed on this delegation token") \
    X(DELEGATION_TOKEN_EXPIRED,                    66, 400,  3, false, "the delegation token has expired") \
    X(INVALID_PRINCIPAL_TYPE,                      67, 400,  3, false, "this kind of principal is not supported") \
    X(NON_EMPTY_GROUP,                             68, 409,  9, false, "the group still has members") \
    X(GROUP_ID_NOT_FOUND,                          69, 404,  5, false, "there is no such group") \
    X(FETCH_SESSION_ID_NOT_FOUND,                  70, 503, 14, true, "the fetch session has ended: open a new one") \
    X(INVALID_FETCH_SESSION_EPOCH,                 71, 503, 14, true, "the fetch session expects another epoch") \
    X(LISTENER_NOT_FOUND,                          72, 503, 14, true, "the leader has no listener of that name") \
    X(TOPIC_DELETION_DISABLED,                     73, 403,  7, false, "deleting topics is switched off") \
    X(FENCED_LEADER_EPOCH,                         74, 503, 14, true, "the leader epoch is older than the current one") \
    X(UNKNOWN_LEADER_EPOCH,                        75, 503, 14, true, "the leader epoch is newer than this broker knows") \
    X(UNSUPPORTED_COMPRESSION_TYPE,                76, 400,  3, false, "this version of the request cannot carry that compression") \
    X(STALE_BROKER_EPOCH,                          77, 400,  3, false, "the broker has registered anew since") \
    X(OFFSET_NOT_AVAILABLE,                        78, 503, 14, true, "the new leader cannot tell the offset yet") \
    X(MEMBER_ID_REQUIRED,                          79, 400,  3, false, "join again with the member id now given") \
    X(PREFERRED_LEADER_NOT_AVAILABLE,              80, 409,  9, true, "the preferred leader is not available") \
    X(GROUP_MAX_SIZE_REACHED,                      81, 400,  3, false, "the group is full") \
    X(FENCED_INSTANCE_ID,                          82, 400,  3, false, "another member has taken over this group instance id") \
    X(ELIGIBLE_LEADERS_NOT_AVAILABLE,              83, 409,  9, true, "no replica that may lead is available") \
    X(ELECTION_NOT_NEEDED,                         84, 409,  9, true, "the partition has the wanted leader already") \
    X(NO_REASSIGNMENT_IN_PROGRESS,                 85, 404,  5, false, "no reassignment of this partition is under way") \
    X(GROUP_SUBSCRIBED_TO_TOPIC,                   86, 409,  9, false, "members of the group are subscribed to the topic") \
    X(INVALID_RECORD,                              87, 400,  3, false, "a record was refused by a check") \
    X(UNSTABLE_OFFSET_COMMIT,                      88, 503, 14, true, "an open transaction has commits for these offsets") \
    X(THROTTLING_QUOTA_EXCEEDED,                   89, 429,  8, true, "the quota is used up for now") \
    X(PRODUCER_FENCED,                             90, 400,  3, false, "a newer producer uses this transactional id") \
    X(RESOURCE_NOT_FOUND,                          91, 404,  5, false, "there is no such resource") \
    X(DUPLICATE_RESOURCE,                          92, 409,  9, false, "the resource is named twice or exists already") \
    X(UNACCEPTABLE_CREDENTIAL,                     93, 400,  3, false, "the credential does not satisfy the rules") \
    X(INCONSISTENT_VOTER_SET,                      94, 400,  3, false, "the sides disagree on who votes") \
    X(INVALID_UPDATE_VERSION,                      95, 400,  3, false, "the update carries a version that does not follow") \
    X(FEATURE_UPDATE_FAILED,                       96, 400,  3, false, "the feature could not be changed") \
    X(PRINCIPAL_DESERIALIZATION_FAILURE,           97, 400,  3, false, "the forwarded principal cannot be read") \
    X(SNAPSHOT_NOT_FOUND,                          98, 400,  3, false, "there is no such snapshot") \
    X(POSITION_OUT_OF_RANGE,                       99, 400,  3, false, "the position is outside the snapshot") \
    X(UNKNOWN_TOPIC_ID,                           100, 404,  5, true, "no topic here has this id") \
    X(DUPLICATE_BROKER_REGISTRATION,              101, 400,  3, false, "a living broker has this id already") \
    X(BROKER_ID_NOT_REGISTERED,                   102, 404,  5, false, "no broker has registered this id") \
    X(INCONSISTENT_TOPIC_ID,                      103, 503, 14, true, "the topic id in the log is another one") \
    X(INCONSISTENT_CLUSTER_ID,                    104, 400,  3, false, "the request is meant for another cluster") \
    X(TRANSACTIONAL_ID_NOT_FOUND,                 105, 404,  5, false, "there is no such transactional id") \
    X(FETCH_SESSION_TOPIC_ID_ERROR,               106, 503, 14, true, "a fetch session names topics by id or by name, not both") \
    X(INELIGIBLE_REPLICA,                         107, 400,  3, false, "a replica named may not be in sync at the moment") \
    X(NEW_LEADER_ELECTED,                         108, 400,  3, false, "the change made another broker leader") \
    X(OFFSET_MOVED_TO_TIERED_STORAGE,             109, 400,  3, false, "the offset lies in remote storage only") \
    X(FENCED_MEMBER_EPOCH,                        110, 400,  3, false, "the member epoch has been superseded: join again") \
    X(UNRELEASED_INSTANCE_ID,                     111, 400,  3, false, "another living member holds this group instance id") \
    X(UNSUPPORTED_ASSIGNOR,                       112, 400,  3, false, "the group knows no assignor of that name") \
    X(STALE_MEMBER_EPOCH,                         113, 400,  3, false, "the member epoch is behind the group") \
    X(MISMATCHED_ENDPOINT_TYPE,                   114, 400,  3, false, "the request was sent to the wrong kind of endpoint") \
    X(UNSUPPORTED_ENDPOINT_TYPE,                  115, 400,  3, false, "this kind of endpoint is not supported") \
    X(UNKNOWN_CONTROLLER_ID,                      116, 400,  3, false, "there is no controller with this id") \
    X(UNKNOWN_SUBSCRIPTION_ID,                    117, 400,  3, false, "the telemetry subscription is not the current one") \
    X(TELEMETRY_TOO_LARGE,                        118, 400,  3, false, "the telemetry pushed is too large") \
    X(INVALID_REGISTRATION,                       119, 400,  3, false, "the registration of the broker is not valid") \
    X(TRANSACTION_ABORTABLE,                      120, 400,  3, false, "the transaction must be aborted") \
    X(INVALID_RECORD_STATE,                       121, 400,  3, false, "the record is not held by this share member") \
    X(SHARE_SESSION_NOT_FOUND,                    122, 503, 14, true, "the share session has ended: open a new one") \
    X(INVALID_SHARE_SESSION_EPOCH,                123, 503, 14, true, "the share session expects another epoch") \
    X(FENCED_STATE_EPOCH,                         124, 400,  3, false, "the state epoch of the share partition is older than the current one") \
    X(INVALID_VOTER_KEY,                          125, 400,  3, false, "the voter is not the one its key names") \
    X(DUPLICATE_VOTER,                            126, 400,  3, false, "the voter is in the set already") \
    X(VOTER_NOT_FOUND,                            127, 400,  3, false, "the set has no such voter") \
    X(INVALID_REGULAR_EXPRESSION,                 128, 400,  3, false, "the regular expression is not valid") \
    X(REBOOTSTRAP_REQUIRED,                       129, 400,  3, false, "what the client knows of the cluster is too old: start again from its bootstrap servers") \
    X(STREAMS_INVALID_TOPOLOGY,                   130, 400,  3, false, "the streams topology is not valid") \
    X(STREAMS_INVALID_TOPOLOGY_EPOCH,             131, 400,  3, false, "the epoch of the streams topology is not valid") \
    X(STREAMS_TOPOLOGY_FENCED,                    132, 400,  3, false, "the streams topology has been superseded") \
    X(SHARE_SESSION_LIMIT_REACHED,                133, 503, 14, true, "the broker has no room for another share session") \
    X(GROUP_DELETION_FAILED,                      134, 400,  3, false, "the group could not be deleted") \
    X(STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,  135, 400,  3, false, "the description of the streams topology could not be stored") \
    X(CONTROLLER_ID_NOT_REGISTERED,               136, 400,  3, false, "no controller has registered this id") \
    /* end */

#define OT_HOUSE_ERRORS(X) \
    X(NO_MEMORY,                                   -1, 503,  8, true, "out of memory: a pool is at its cap") \
    X(IO,                                          56, 500, 13, true, "the disk gave an I/O error") \
    X(NO_SPACE,                                    44, 507,  8, false, "the disk is full or below its reserve") \
    X(CORRUPT,                                      2, 500, 15, false, "data on disk fails its check") \
    X(SHORT,                                       42, 400,  3, false, "the input ends too early") \
    X(MALFORMED,                                   42, 400,  3, false, "the input is malformed") \
    X(TOO_LARGE,                                   42, 413,  8, false, "the input is larger than allowed") \
    X(NOT_FOUND,                                    3, 404,  5, false, "no such thing") \
    X(EXISTS,                                      36, 409,  6, false, "it exists already") \
    X(BUSY,                                        -1, 503, 14, true, "busy: try again") \
    X(CLOSED,                                      56, 503, 14, true, "it is closed or closing") \
    X(CANCELLED,                                    7, 503,  1, true, "cancelled") \
    X(LOCKED,                                      -1, 503,  9, false, "another process holds the lock") \
    X(MISMATCH,                                    -1, 500,  9, false, "it belongs to another cluster, node or version") \
    /* end */
