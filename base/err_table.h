/* Every error that ottla gives, one row each: the Kafka protocol's codes first, then those that never leave the house
 * under their own name (kafka = what a Kafka client is told instead). Codes are facts of the Kafka 4.4 protocol.
 *
 *    name                                  kafka http grpc retriable text */
#define OT_KAFKA_ERRORS(X) \
    X(UNKNOWN_SERVER_ERROR,                        -1, 500, 13, false, "unknown server error") \
    X(NONE,                                         0, 200,  0, false, "none") \
    X(OFFSET_OUT_OF_RANGE,                          1, 416, 11, false, "offset out of range") \
    X(CORRUPT_MESSAGE,                              2, 500, 13, true, "corrupt message") \
    X(UNKNOWN_TOPIC_OR_PARTITION,                   3, 404,  5, true, "unknown topic or partition") \
    X(INVALID_FETCH_SIZE,                           4, 400,  3, false, "invalid fetch size") \
    X(LEADER_NOT_AVAILABLE,                         5, 503, 14, true, "leader not available") \
    X(NOT_LEADER_OR_FOLLOWER,                       6, 503, 14, true, "not leader or follower") \
    X(REQUEST_TIMED_OUT,                            7, 504,  4, true, "request timed out") \
    X(BROKER_NOT_AVAILABLE,                         8, 503, 14, false, "broker not available") \
    X(REPLICA_NOT_AVAILABLE,                        9, 503, 14, true, "replica not available") \
    X(MESSAGE_TOO_LARGE,                           10, 413,  8, false, "message too large") \
    X(STALE_CONTROLLER_EPOCH,                      11, 400,  3, false, "stale controller epoch") \
    X(OFFSET_METADATA_TOO_LARGE,                   12, 400,  3, false, "offset metadata too large") \
    X(NETWORK_EXCEPTION,                           13, 503, 14, true, "network exception") \
    X(COORDINATOR_LOAD_IN_PROGRESS,                14, 503, 14, true, "coordinator load in progress") \
    X(COORDINATOR_NOT_AVAILABLE,                   15, 503, 14, true, "coordinator not available") \
    X(NOT_COORDINATOR,                             16, 503, 14, true, "not coordinator") \
    X(INVALID_TOPIC_EXCEPTION,                     17, 400,  3, false, "invalid topic exception") \
    X(RECORD_LIST_TOO_LARGE,                       18, 413,  8, false, "record list too large") \
    X(NOT_ENOUGH_REPLICAS,                         19, 503, 14, true, "not enough replicas") \
    X(NOT_ENOUGH_REPLICAS_AFTER_APPEND,            20, 504,  4, true, "not enough replicas after append") \
    X(INVALID_REQUIRED_ACKS,                       21, 400,  3, false, "invalid required acks") \
    X(ILLEGAL_GENERATION,                          22, 400,  3, false, "illegal generation") \
    X(INCONSISTENT_GROUP_PROTOCOL,                 23, 400,  3, false, "inconsistent group protocol") \
    X(INVALID_GROUP_ID,                            24, 400,  3, false, "invalid group id") \
    X(UNKNOWN_MEMBER_ID,                           25, 404,  5, false, "unknown member id") \
    X(INVALID_SESSION_TIMEOUT,                     26, 400,  3, false, "invalid session timeout") \
    X(REBALANCE_IN_PROGRESS,                       27, 409,  9, false, "rebalance in progress") \
    X(INVALID_COMMIT_OFFSET_SIZE,                  28, 400,  3, false, "invalid commit offset size") \
    X(TOPIC_AUTHORIZATION_FAILED,                  29, 403,  7, false, "topic authorization failed") \
    X(GROUP_AUTHORIZATION_FAILED,                  30, 403,  7, false, "group authorization failed") \
    X(CLUSTER_AUTHORIZATION_FAILED,                31, 403,  7, false, "cluster authorization failed") \
    X(INVALID_TIMESTAMP,                           32, 400,  3, false, "invalid timestamp") \
    X(UNSUPPORTED_SASL_MECHANISM,                  33, 400,  3, false, "unsupported sasl mechanism") \
    X(ILLEGAL_SASL_STATE,                          34, 400,  3, false, "illegal sasl state") \
    X(UNSUPPORTED_VERSION,                         35, 400,  3, false, "unsupported version") \
    X(TOPIC_ALREADY_EXISTS,                        36, 409,  9, false, "topic already exists") \
    X(INVALID_PARTITIONS,                          37, 400,  3, false, "invalid partitions") \
    X(INVALID_REPLICATION_FACTOR,                  38, 400,  3, false, "invalid replication factor") \
    X(INVALID_REPLICA_ASSIGNMENT,                  39, 400,  3, false, "invalid replica assignment") \
    X(INVALID_CONFIG,                              40, 400,  3, false, "invalid config") \
    X(NOT_CONTROLLER,                              41, 503, 14, true, "not controller") \
    X(INVALID_REQUEST,                             42, 400,  3, false, "invalid request") \
    X(UNSUPPORTED_FOR_MESSAGE_FORMAT,              43, 400,  3, false, "unsupported for message format") \
    X(POLICY_VIOLATION,                            44, 403,  7, false, "policy violation") \
    X(OUT_OF_ORDER_SEQUENCE_NUMBER,                45, 400,  3, false, "out of order sequence number") \
    X(DUPLICATE_SEQUENCE_NUMBER,                   46, 400,  3, false, "duplicate sequence number") \
    X(INVALID_PRODUCER_EPOCH,                      47, 400,  3, false, "invalid producer epoch") \
    X(INVALID_TXN_STATE,                           48, 400,  3, false, "invalid txn state") \
    X(INVALID_PRODUCER_ID_MAPPING,                 49, 400,  3, false, "invalid producer id mapping") \
    X(INVALID_TRANSACTION_TIMEOUT,                 50, 400,  3, false, "invalid transaction timeout") \
    X(CONCURRENT_TRANSACTIONS,                     51, 409,  9, true, "concurrent transactions") \
    X(TRANSACTION_COORDINATOR_FENCED,              52, 400,  3, false, "transaction coordinator fenced") \
    X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED,       53, 403,  7, false, "transactional id authorization failed") \
    X(SECURITY_DISABLED,                           54, 400,  3, false, "security disabled") \
    X(OPERATION_NOT_ATTEMPTED,                     55, 400,  3, false, "operation not attempted") \
    X(KAFKA_STORAGE_ERROR,                         56, 500, 13, true, "kafka storage error") \
    X(LOG_DIR_NOT_FOUND,                           57, 404,  5, false, "log dir not found") \
    X(SASL_AUTHENTICATION_FAILED,                  58, 401, 16, false, "sasl authentication failed") \
    X(UNKNOWN_PRODUCER_ID,                         59, 400,  3, false, "unknown producer id") \
    X(REASSIGNMENT_IN_PROGRESS,                    60, 409,  9, false, "reassignment in progress") \
    X(DELEGATION_TOKEN_AUTH_DISABLED,              61, 400,  3, false, "delegation token auth disabled") \
    X(DELEGATION_TOKEN_NOT_FOUND,                  62, 400,  3, false, "delegation token not found") \
    X(DELEGATION_TOKEN_OWNER_MISMATCH,             63, 400,  3, false, "delegation token owner mismatch") \
    X(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,        64, 400,  3, false, "delegation token request not allowed") \
    X(DELEGATION_TOKEN_AUTHORIZATION_FAILED,       65, 403,  7, false, "delegation token authorization failed") \
    X(DELEGATION_TOKEN_EXPIRED,                    66, 400,  3, false, "delegation token expired") \
    X(INVALID_PRINCIPAL_TYPE,                      67, 400,  3, false, "invalid principal type") \
    X(NON_EMPTY_GROUP,                             68, 409,  9, false, "non empty group") \
    X(GROUP_ID_NOT_FOUND,                          69, 404,  5, false, "group id not found") \
    X(FETCH_SESSION_ID_NOT_FOUND,                  70, 503, 14, true, "fetch session id not found") \
    X(INVALID_FETCH_SESSION_EPOCH,                 71, 503, 14, true, "invalid fetch session epoch") \
    X(LISTENER_NOT_FOUND,                          72, 503, 14, true, "listener not found") \
    X(TOPIC_DELETION_DISABLED,                     73, 403,  7, false, "topic deletion disabled") \
    X(FENCED_LEADER_EPOCH,                         74, 503, 14, true, "fenced leader epoch") \
    X(UNKNOWN_LEADER_EPOCH,                        75, 503, 14, true, "unknown leader epoch") \
    X(UNSUPPORTED_COMPRESSION_TYPE,                76, 400,  3, false, "unsupported compression type") \
    X(STALE_BROKER_EPOCH,                          77, 400,  3, false, "stale broker epoch") \
    X(OFFSET_NOT_AVAILABLE,                        78, 503, 14, true, "offset not available") \
    X(MEMBER_ID_REQUIRED,                          79, 400,  3, false, "member id required") \
    X(PREFERRED_LEADER_NOT_AVAILABLE,              80, 409,  9, true, "preferred leader not available") \
    X(GROUP_MAX_SIZE_REACHED,                      81, 400,  3, false, "group max size reached") \
    X(FENCED_INSTANCE_ID,                          82, 400,  3, false, "fenced instance id") \
    X(ELIGIBLE_LEADERS_NOT_AVAILABLE,              83, 409,  9, true, "eligible leaders not available") \
    X(ELECTION_NOT_NEEDED,                         84, 409,  9, true, "election not needed") \
    X(NO_REASSIGNMENT_IN_PROGRESS,                 85, 404,  5, false, "no reassignment in progress") \
    X(GROUP_SUBSCRIBED_TO_TOPIC,                   86, 409,  9, false, "group subscribed to topic") \
    X(INVALID_RECORD,                              87, 400,  3, false, "invalid record") \
    X(UNSTABLE_OFFSET_COMMIT,                      88, 503, 14, true, "unstable offset commit") \
    X(THROTTLING_QUOTA_EXCEEDED,                   89, 429,  8, true, "throttling quota exceeded") \
    X(PRODUCER_FENCED,                             90, 400,  3, false, "producer fenced") \
    X(RESOURCE_NOT_FOUND,                          91, 404,  5, false, "resource not found") \
    X(DUPLICATE_RESOURCE,                          92, 409,  9, false, "duplicate resource") \
    X(UNACCEPTABLE_CREDENTIAL,                     93, 400,  3, false, "unacceptable credential") \
    X(INCONSISTENT_VOTER_SET,                      94, 400,  3, false, "inconsistent voter set") \
    X(INVALID_UPDATE_VERSION,                      95, 400,  3, false, "invalid update version") \
    X(FEATURE_UPDATE_FAILED,                       96, 400,  3, false, "feature update failed") \
    X(PRINCIPAL_DESERIALIZATION_FAILURE,           97, 400,  3, false, "principal deserialization failure") \
    X(SNAPSHOT_NOT_FOUND,                          98, 400,  3, false, "snapshot not found") \
    X(POSITION_OUT_OF_RANGE,                       99, 400,  3, false, "position out of range") \
    X(UNKNOWN_TOPIC_ID,                           100, 404,  5, true, "unknown topic id") \
    X(DUPLICATE_BROKER_REGISTRATION,              101, 400,  3, false, "duplicate broker registration") \
    X(BROKER_ID_NOT_REGISTERED,                   102, 404,  5, false, "broker id not registered") \
    X(INCONSISTENT_TOPIC_ID,                      103, 503, 14, true, "inconsistent topic id") \
    X(INCONSISTENT_CLUSTER_ID,                    104, 400,  3, false, "inconsistent cluster id") \
    X(TRANSACTIONAL_ID_NOT_FOUND,                 105, 404,  5, false, "transactional id not found") \
    X(FETCH_SESSION_TOPIC_ID_ERROR,               106, 503, 14, true, "fetch session topic id error") \
    X(INELIGIBLE_REPLICA,                         107, 400,  3, false, "ineligible replica") \
    X(NEW_LEADER_ELECTED,                         108, 400,  3, false, "new leader elected") \
    X(OFFSET_MOVED_TO_TIERED_STORAGE,             109, 400,  3, false, "offset moved to tiered storage") \
    X(FENCED_MEMBER_EPOCH,                        110, 400,  3, false, "fenced member epoch") \
    X(UNRELEASED_INSTANCE_ID,                     111, 400,  3, false, "unreleased instance id") \
    X(UNSUPPORTED_ASSIGNOR,                       112, 400,  3, false, "unsupported assignor") \
    X(STALE_MEMBER_EPOCH,                         113, 400,  3, false, "stale member epoch") \
    X(MISMATCHED_ENDPOINT_TYPE,                   114, 400,  3, false, "mismatched endpoint type") \
    X(UNSUPPORTED_ENDPOINT_TYPE,                  115, 400,  3, false, "unsupported endpoint type") \
    X(UNKNOWN_CONTROLLER_ID,                      116, 400,  3, false, "unknown controller id") \
    X(UNKNOWN_SUBSCRIPTION_ID,                    117, 400,  3, false, "unknown subscription id") \
    X(TELEMETRY_TOO_LARGE,                        118, 400,  3, false, "telemetry too large") \
    X(INVALID_REGISTRATION,                       119, 400,  3, false, "invalid registration") \
    X(TRANSACTION_ABORTABLE,                      120, 400,  3, false, "transaction abortable") \
    X(INVALID_RECORD_STATE,                       121, 400,  3, false, "invalid record state") \
    X(SHARE_SESSION_NOT_FOUND,                    122, 503, 14, true, "share session not found") \
    X(INVALID_SHARE_SESSION_EPOCH,                123, 503, 14, true, "invalid share session epoch") \
    X(FENCED_STATE_EPOCH,                         124, 400,  3, false, "fenced state epoch") \
    X(INVALID_VOTER_KEY,                          125, 400,  3, false, "invalid voter key") \
    X(DUPLICATE_VOTER,                            126, 400,  3, false, "duplicate voter") \
    X(VOTER_NOT_FOUND,                            127, 400,  3, false, "voter not found") \
    X(INVALID_REGULAR_EXPRESSION,                 128, 400,  3, false, "invalid regular expression") \
    X(REBOOTSTRAP_REQUIRED,                       129, 400,  3, false, "rebootstrap required") \
    X(STREAMS_INVALID_TOPOLOGY,                   130, 400,  3, false, "streams invalid topology") \
    X(STREAMS_INVALID_TOPOLOGY_EPOCH,             131, 400,  3, false, "streams invalid topology epoch") \
    X(STREAMS_TOPOLOGY_FENCED,                    132, 400,  3, false, "streams topology fenced") \
    X(SHARE_SESSION_LIMIT_REACHED,                133, 503, 14, true, "share session limit reached") \
    X(GROUP_DELETION_FAILED,                      134, 400,  3, false, "group deletion failed") \
    X(STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,  135, 400,  3, false, "streams topology description update failed") \
    X(CONTROLLER_ID_NOT_REGISTERED,               136, 400,  3, false, "controller id not registered") \
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
