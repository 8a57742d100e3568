"""Read a message schema (grammar in docs/wire.md). Every mistake is an exit that names the file and the line."""
import re
import sys

KINDS = ("request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value")
AREAS = ("rpc", "header", "common", "group", "transaction", "share", "quorum", "storage", "metadata", "remote-log", "peer", "coordinator")
PRIMITIVE = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid", "bytes", "records")
NEVER_NULL = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid")
# data messages that carry their version in front; our own ones all do
VERSIONED_DATA = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "DefaultPrincipalData", "EndTxnMarker",
                  "ControlRecordTypeSchema", "AbortedTxn", "ProducerSnapshot")
C_WORDS = ("auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
           "return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false").split()
VERSION_END = 32767
where = "?"


def fail(text):
    sys.exit("%s: %s" % (where, text))


def snake(name, field=False):
    text = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text)).lower()
    return text + "_" if field and text in C_WORDS else text


def parse_range(text):
    if text == "none":
        return None
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if not match:
        fail("bad range %r" % text)
    low = int(match[1])
    return (low, VERSION_END if match[2] else int(match[3]) if match[3] else low)


def in_range(version, versions):
    return versions is not None and versions[0] <= version <= versions[1]


def cut(inner, outer):
    """The part of a range that lies in another one; None when nothing is left."""
    if inner is None or outer is None:
        return None
    low, high = max(inner[0], outer[0]), min(inner[1], outer[1])
    return (low, high) if low <= high else None


def parse_field(text):
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9]*) (\[\])?([A-Za-z][A-Za-z0-9]*) v=(\S+)(.*)", text)
    if not match:
        fail("not a field: %r" % text)
    field = {"name": match[1], "array": bool(match[2]), "type": match[3], "versions": parse_range(match[4]), "null": None, "default": None,
             "tag": None, "tag_versions": None, "plain": False, "key": False, "ignorable": False, "struct": None, "fields": []}
    rest = match[5]
    for part in re.findall(r' (default="(?:[^"\\]|\\.)*"|\S+)', rest):
        name, _, value = part.partition("=")
        if name == "null":
            field["null"] = parse_range(value)
        elif name == "default":
            field["default"] = value
        elif name == "tag":
            tag, _, versions = value.partition("@")
            field["tag"], field["tag_versions"] = int(tag), parse_range(versions)
        elif part == "flex=none":
            field["plain"] = True
        elif part in ("key", "ignorable"):
            field[part] = True
        elif part != "zerocopy" and name != "entity":
            fail("unknown word %r" % part)
    if field["type"] == "records" and field["default"] is None:
        field["default"] = "null"
    return field


def read_lines(path):
    """The head as a dictionary, and (indent, text) of all lines below it."""
    global where
    head, body = {}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = "%s:%d" % (path, number)
        text = line.strip()
        if body or text == "fields" or text.startswith("struct "):
            body.append((where, len(line) - len(line.lstrip(" ")), text))
        elif text and not text.startswith("#"):
            name, _, value = text.partition(" ")
            head[name] = value
    if not body or body[-1][2] != "end":
        fail("no end")
    return head, body[:-1]


def parse_body(body):
    global where
    structs, root, stack = {}, None, []
    for where, indent, text in body:
        if indent == 0:
            if text == "fields":
                root = {"name": "", "versions": (0, VERSION_END), "fields": [], "in_array": False}
                stack = [root]
            else:
                match = re.fullmatch(r"struct ([A-Za-z0-9]+) v=(\S+)", text) or fail("not a struct: %r" % text)
                stack = [{"name": match[1], "versions": parse_range(match[2]), "fields": [], "in_array": False}]
                structs[match[1]] = stack[0]
            continue
        depth = indent // 2
        if indent % 2 or depth > len(stack) or not stack:
            fail("bad indent")
        field = parse_field(text)
        del stack[depth:]
        stack[-1]["fields"].append(field)
        stack.append(field)
    return structs, root


def settle(owner, versions, structs, message, order, open_names):
    """Resolve struct names, cut the version ranges, order structs so that each stands after those it uses. A field that no valid version
    has (they are kept in schemas for versions that are gone) is left out."""
    for field in owner["fields"]:
        field["versions"] = cut(field["versions"], versions)
        field["null"], field["tag_versions"] = cut(field["null"], field["versions"]), cut(field["tag_versions"], field["versions"])
        if field["type"] in PRIMITIVE:
            if field["null"] and not field["array"] and field["type"] in NEVER_NULL:
                fail("%s: a %s cannot be null" % (field["name"], field["type"]))
            if field["type"] == "records" and (field["array"] or field["tag"] is not None):
                fail("%s: records are neither in arrays nor tagged" % field["name"])
            continue
        if field["fields"]:
            if field["type"] in structs:
                fail("%s is defined twice" % field["type"])
            structs[field["type"]] = {"name": field["type"], "versions": (0, VERSION_END), "fields": field["fields"], "in_array": False}
        struct = structs.get(field["type"]) or fail("%s: unknown type %s" % (field["name"], field["type"]))
        field["struct"] = struct
        struct["in_array"] |= field["array"]
        if struct["name"] in open_names:
            fail("%s holds itself" % struct["name"])
        if struct not in order:
            settle(struct, cut(struct["versions"], message["versions"]), structs, message, order, open_names + [struct["name"]])
            order.append(struct)
    owner["fields"] = [field for field in owner["fields"] if field["versions"]]


def check_names(message):
    """No tag and no name twice in a struct."""
    for struct in message["structs"]:
        tags = [field["tag"] for field in struct["fields"] if field["tag"] is not None]
        names = [snake(field["name"], True) for field in struct["fields"]]
        if len(set(tags)) != len(tags) or len(set(names)) != len(names):
            fail("%s: a tag or a name is used twice" % struct["name"])


def parse(path):
    global where
    head, body = read_lines(path)
    where = str(path)
    message = {"name": head.get("message", ""), "kind": head.get("kind"), "area": head.get("area"), "api": int(head["api"]) if "api" in head else None,
               "versions": parse_range(head.get("versions", "")), "flexible": parse_range(head.get("flexible", "")),
               "unstable": head.get("unstable") == "yes", "listeners": [name for name in head.get("listeners", "").split(",") if name]}
    if message["name"] != path.stem or message["kind"] not in KINDS or message["area"] not in AREAS:
        fail("bad message, kind or area")
    structs, root = parse_body(body)
    root["name"] = message["name"]
    message["root"], message["structs"] = root, []
    if message["versions"] is None:
        return message
    message["flexible"] = cut(message["flexible"], message["versions"])
    if message["flexible"] and message["flexible"][1] != message["versions"][1]:
        fail("flexible versions must reach the end")
    settle(root, message["versions"], structs, message, message["structs"], [])
    message["structs"].append(root)
    check_names(message)
    message["own"] = path.parent.name == "schema_ottla"
    message["frame"] = frame_of(message)
    return message


def frame_of(message):
    """The prefix of a message in a record; tiered storage's metadata records have none."""
    if message["kind"] == "metadata":
        return "none" if message["area"] == "remote-log" else "metadata"
    if message["kind"] == "data":
        return "version" if message["own"] or message["name"] in VERSIONED_DATA else "none"
    return {"coordinator-key": "api", "coordinator-value": "version"}.get(message["kind"], "none")
