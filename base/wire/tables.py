"""The tables beside the schemas as C: APIs, enumerations, feature levels, and the list of all messages."""
from schema import fail, snake

NOTE = "/* Made by base/wire/generate.py from %s: do not edit. */\n"


def rows(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def guard(name, text, includes):
    return "#ifndef OT_WIRE_%s_H\n#define OT_WIRE_%s_H\n\n%s\n%s\n#endif\n" % (name, name, "".join('#include "%s"\n' % i for i in includes), text)


# ---- APIs

def api_rows(here, messages):
    by_name = {message["name"]: message for message in messages}
    for key, upper, name, low, high, unstable, _, _, listeners, cluster, forwardable, _ in rows(here / "apis.txt"):
        if low == "-":
            continue
        request = by_name[name + "Request"]
        response = by_name[name + "Response"]
        if int(high) > request["versions"][1] or request["versions"] != response["versions"] or request["api"] != int(key):
            fail("apis.txt: %s does not fit its schema" % name)
        yield (int(key), upper, name, int(low), int(high), unstable == "yes", listeners.split(","), cluster == "yes", forwardable == "yes", request, response)
    for request in sorted((m for m in messages if m["own"] and m["kind"] == "request"), key=lambda m: m["api"]):
        name = request["name"][:-len("Request")]
        response = by_name[name + "Response"]
        if request["api"] < 10000 or request["versions"] != response["versions"]:
            fail("%s: an API of our own has a key from 10000 and a response of the same versions" % name)
        yield (request["api"], snake(name).upper(), name) + request["versions"] + (False, ["peer"], True, False, request, response)


def check_headers(here):
    """apis.txt spells out the header versions; the code derives them, so the two must agree."""
    for key, _, name, low, _, _, request, response, *_ in rows(here / "apis.txt"):
        if low != "-":
            for column, first in ((request, 1), (response, 0)):
                for part in column.split(","):
                    if int(part.split(":")[1]) not in (first, first + 1):
                        fail("apis.txt: odd header version of %s" % name)


def emit_apis(here, messages, kind):
    table = list(api_rows(here, messages))
    check_headers(here)
    note = NOTE % "apis.txt and the schemas"
    if kind == "h":
        text = "enum ot_api_key {\n%s\n};\n" % ",\n".join("    OT_API_%s = %d" % (row[1], row[0]) for row in table)
        text += "#define OT_API_COUNT %d\n" % len(table)
        return note + guard("APIS", text, ["base/wire/frame.h"])
    lines = []
    for key, upper, name, low, high, unstable, listeners, cluster, forwardable, request, response in table:
        flags = ["OT_API_ON_" + listener.upper() for listener in listeners if listener]
        flags += [flag for flag, on in (("OT_API_CLUSTER_ACTION", cluster), ("OT_API_FORWARDABLE", forwardable), ("OT_API_LATEST_UNSTABLE", unstable)) if on]
        flexible = request["flexible"][0] if request["flexible"] else high + 1
        lines.append('    { %d, "%s", "%s", %d, %d, %d, %d, %s, &ot_%s_message, &ot_%s_message }' % (
            key, name, upper, low, high, 0 if name == "Produce" else low, flexible, " | ".join(flags) or "0", snake(request["name"]), snake(response["name"])))
    includes = "".join('#include "base/wire/%s.h"\n' % snake(m["name"]) for row in table for m in row[-2:])
    return "%s\n#include \"base/wire/apis.h\"\n%s\nconst struct ot_api ot_apis[] = {\n%s\n};\nconst size_t ot_api_count = OT_ARRAY_COUNT(ot_apis);\n" % (
        note, includes, ",\n".join(lines))


# ---- enumerations

def enum_rows(here):
    enums = {}
    for enum, name, number, text in rows(here / "enums.txt"):
        entries = enums.setdefault(enum, [])
        entries.append((name, len(entries) if number == "-" else int(number), name if text == "-" else text, number == "-"))
    return enums


def emit_enums(here, messages, kind):
    enums, note = enum_rows(here), NOTE % "enums.txt"
    if kind == "h":
        text = ""
        for enum, entries in enums.items():
            name = enum.replace("-", "_")
            if entries[0][3]:
                text += "/* the numbers are ours: only the text goes onto the wire */\n"
            text += "enum ot_%s {\n%s\n};\n" % (name, ",\n".join("    OT_%s_%s = %d" % (name.upper(), e[0], e[1]) for e in entries))
            text += "extern const struct ot_wire_enum ot_%s_enum;\n\n" % name
        return note + guard("ENUMS", text, ["base/wire/codec.h"])
    out = [note, '#include "base/wire/enums.h"\n']
    for enum, entries in enums.items():
        name = enum.replace("-", "_")
        out.append("static const struct ot_wire_enum_row %s_rows[] = {\n%s\n};" % (name, ",\n".join('    { "%s", "%s", %d }' % (e[0], e[2], e[1]) for e in entries)))
        out.append('const struct ot_wire_enum ot_%s_enum = { "%s", %s_rows, %d };\n' % (name, enum, name, len(entries)))
    return "\n".join(out)


# ---- features

def emit_features(here, messages, kind):
    note, table = NOTE % "features.txt", list(rows(here / "features.txt"))
    if kind == "h":
        names = []
        for row in table:
            if row[0] not in names:
                names.append(row[0])
        text = """/* Feature levels, in ascending order within a feature, features in the order of the table. `since` is the metadata version at which
 * a new cluster starts with that level; a level that is not for production is offered only when unstable versions are enabled. */
struct ot_feature_level { const char *feature; int16_t level; const char *name; const char *since; bool production; };
extern const struct ot_feature_level ot_feature_levels[];
extern const size_t ot_feature_level_count;
"""
        for name in names:
            levels = [int(row[1]) for row in table if row[0] == name and row[4] == "yes"]
            upper = "OT_FEATURE_" + name.replace(".", "_").upper()
            text += '#define %s "%s"\n#define %s_MIN %d\n#define %s_MAX %d    /* for production */\n' % (upper, name, upper, min(levels), upper, max(levels))
        return note + guard("FEATURES", text, ["base/macros.h"])
    lines = ['    { "%s", %s, "%s", "%s", %s }' % (f, level, name, since, "true" if ready == "yes" else "false") for f, level, name, since, ready in table]
    return note + '\n#include "base/wire/features.h"\n\nconst struct ot_feature_level ot_feature_levels[] = {\n%s\n};\n' % ",\n".join(lines) + \
        "const size_t ot_feature_level_count = OT_ARRAY_COUNT(ot_feature_levels);\n"


# ---- all messages

def emit_messages(here, messages, kind):
    note, names = NOTE % "the schemas", sorted((m["name"] for m in messages))
    if kind == "h":
        text = """/* Every message that has a version, sorted by name (bytewise). */
extern const struct ot_wire_message *const ot_wire_messages[];
extern const size_t ot_wire_message_count;
"""
        return note + guard("MESSAGES", text, ["base/wire/codec.h"])
    return "%s\n#include \"base/wire/messages.h\"\n%s\nconst struct ot_wire_message *const ot_wire_messages[] = {\n%s\n};\n" \
        "const size_t ot_wire_message_count = OT_ARRAY_COUNT(ot_wire_messages);\n" % (
            note, "".join('#include "base/wire/%s.h"\n' % snake(name) for name in names), ",\n".join("    &ot_%s_message" % snake(name) for name in names))
