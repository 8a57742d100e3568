"""Loaded by schemathesis (SCHEMATHESIS_HOOKS): what a schema cannot say about valid requests, and the form of NDJSON."""
import schemathesis

# opaque tokens of an answer before; a wait for metadata that may never come
NOT_MADE_UP = {"query": ("page_token", "continue_token", "min_metadata_offset"), "headers": ("If-Match", "Idempotency-Key")}
TIMEOUT_MS = 2000


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.query and str(case.query.get("timeout_ms", "")).isdigit():
        case.query["timeout_ms"] = min(int(case.query["timeout_ms"]), TIMEOUT_MS)
    if case.query and "watch" in case.query:  # waits as long as it is told to
        case.query["wait_ms"] = 50
    if case.query and "fields" in case.query:
        del case.query["fields"]  # items of fewer members than their schema requires
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    for place, names in NOT_MADE_UP.items():
        values = getattr(case, place)
        for name in names:
            if values and name in values:
                del values[name]


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
