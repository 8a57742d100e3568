#!/usr/bin/env python3
"""Turn schema/*.txt and the tables beside it into C structs and constant descriptors (docs/wire.md).

  generate.py --list OUT            print the files that will be made, one a line
  generate.py [--inputs=ANY] OUT    make them; a file whose text is the same is left alone, others in OUT are removed
Standard library only. One header and one C file a message, plus apis, enums, features and messages.
"""
import json
import pathlib
import sys

from schema import fail, in_range, parse, snake
from tables import emit_apis, emit_enums, emit_features, emit_messages

HERE = pathlib.Path(__file__).resolve().parent
NOTE = "/* Made by base/wire/generate.py from %s: do not edit. */\n"

#            C type               array type            code    default kind
PRIMITIVES = {
    "bool": ("bool", "ot_bool_array", "BOOL", 1),
    "int8": ("int8_t", "ot_i8_array", "I8", 1),
    "int16": ("int16_t", "ot_i16_array", "I16", 2),
    "uint16": ("uint16_t", "ot_u16_array", "U16", 2),
    "int32": ("int32_t", "ot_i32_array", "I32", 4),
    "uint32": ("uint32_t", "ot_u32_array", "U32", 4),
    "int64": ("int64_t", "ot_i64_array", "I64", 8),
    "float64": ("double", "ot_f64_array", "F64", 8),
    "uuid": ("struct ot_uuid", "ot_uuid_array", "UUID", 16),
    "string": ("struct ot_str", "ot_str_array", "STR", 0),
    "bytes": ("struct ot_blob", "ot_blob_array", "BYTES", 0),
    "records": ("struct ot_blob", "ot_blob_array", "RECORDS", 0),
}
INTEGERS = ("int8", "int16", "uint16", "int32", "uint32", "int64")


# ---- names

def c_name(message):
    return "ot_" + snake(message["name"])


def struct_name(message, struct):
    return c_name(message) if struct is message["root"] else c_name(message) + "_" + snake(struct["name"])


def has_tags(message):
    return message["flexible"] is not None


def is_pointer(field):
    return field["struct"] is not None and not field["array"] and field["null"] is not None


# ---- the header

def field_type(message, field):
    if field["struct"] is not None:
        name = struct_name(message, field["struct"])
        if field["array"]:
            return "struct %s_array " % name
        return ("const struct %s *" if is_pointer(field) else "struct %s ") % name
    c_type, array_type = PRIMITIVES[field["type"]][:2]
    return "struct %s " % array_type if field["array"] else c_type + " "


def field_remark(message, field):
    words = []
    if field["versions"] != message["versions"]:
        low, high = field["versions"]
        words.append("v%d+" % low if high >= message["versions"][1] else "v%d" % low if low == high else "v%d-%d" % (low, high))
    if field["null"]:
        words.append("may be null")
    if field["default"] not in (None, "0", "false"):
        words.append("default %s" % field["default"])
    if field["tag"] is not None:
        words.append("tag %d" % field["tag"])
    return "    /* %s */" % ", ".join(words).replace("*/", "* /") if words else ""


def emit_struct(message, struct):
    name = struct_name(message, struct)
    lines = ["struct %s {" % name]
    for field in struct["fields"]:
        lines.append("    %s%s;%s" % (field_type(message, field), snake(field["name"], True), field_remark(message, field)))
    if has_tags(message):
        lines.append("    struct ot_wire_tags _tags;")
    if not struct["fields"] and not has_tags(message):
        lines.append("    char _nothing;    /* no fields in any version */")
    lines.append("};")
    if struct["in_array"]:
        lines.append("struct %s_array { struct %s *items; int32_t count; };" % (name, name))
    return "\n".join(lines)


def emit_header(message, source):
    name, upper = c_name(message), c_name(message).upper()
    low, high = message["versions"]
    flexible = message["flexible"][0] if message["flexible"] else high + 1
    splices = any(field["type"] == "records" for struct in message["structs"] for field in struct["fields"])
    more, give = (", struct ot_wire_splices *splices", "splices") if splices else ("", "NULL")
    out = [NOTE % source, "#ifndef %s_H\n#define %s_H\n" % (upper, upper), '#include "base/wire/codec.h"\n']
    out.append("enum {\n    %s_VERSION_MIN = %d,\n    %s_VERSION_MAX = %d,\n    %s_FLEXIBLE_MIN = %d%s\n};\n" % (
        upper, low, upper, high, upper, flexible, ",\n    %s_API = %d" % (upper, message["api"]) if message["api"] is not None else ""))
    out += [emit_struct(message, struct) + "\n" for struct in message["structs"]]
    out.append("extern const struct ot_wire_message %s_message;\n" % name)
    for number, struct in enumerate(message["structs"]):
        sname = struct_name(message, struct)
        out.append("static inline void %s_defaults(struct %s *out)\n{\n    ot_wire_set_struct_defaults(&%s_message, %d, out);\n}\n" % (
            sname, sname, name, number))
    out.append("OT_MUST_CHECK static inline enum ot_err %s_decode(struct %s *out, int16_t version, struct ot_reader *in,\n"
               "    struct ot_arena *arena, struct ot_wire_error *error)\n{\n"
               "    return ot_wire_decode(&%s_message, version, in, arena, out, error);\n}\n" % (name, name, name))
    out.append("OT_MUST_CHECK static inline enum ot_err %s_encode(const struct %s *in, int16_t version, struct ot_writer *out%s)\n{\n"
               "    return ot_wire_encode(&%s_message, version, in, out, %s);\n}\n" % (name, name, more, name, give))
    out.append("static inline size_t %s_size(const struct %s *in, int16_t version)\n{\n"
               "    return ot_wire_size(&%s_message, version, in);\n}\n" % (name, name, name))
    out.append("#endif\n")
    return "\n".join(out)


# ---- defaults

def integer(value, bits_64):
    if value == -2 ** 63:
        return "INT64_MIN"
    if value == -2 ** 31:
        return "INT32_MIN"
    return "INT64_C(%d)" % value if bits_64 else "%d" % value


def default_value(message, field):
    """The C initialiser of a field's default, or None where it is all zero bits."""
    text = field["default"]
    if text == "null":
        if is_pointer(field):
            return None
        return "{ .count = -1 }" if field["array"] else "{ .null = true }"
    if field["array"]:
        return None if text is None else fail("%s: an array has no default but null" % field["name"])
    if field["struct"] is not None:
        if is_pointer(field):
            return "&%s_zero" % struct_name(message, field["struct"])
        return default_image(message, field["struct"])
    if text is None:
        return None
    if field["type"] == "bool":
        return "true" if text == "true" else None
    if field["type"] in INTEGERS:
        return integer(int(text), field["type"] == "int64") if int(text) else None
    if field["type"] == "float64":
        return "%r" % float(text) if float(text) else None
    if field["type"] == "string":
        value = json.loads(text).encode()
        escaped = "".join("\\%03o" % byte for byte in value)
        return '{ "%s", %d, false }' % (escaped, len(value)) if value else None
    return fail("%s: a %s has no default but null" % (field["name"], field["type"]))


def default_image(message, struct):
    parts = []
    for field in struct["fields"]:
        value = default_value(message, field)
        if value is not None:
            parts.append(".%s = %s" % (snake(field["name"], True), value))
    return "{ " + ", ".join(parts) + " }" if parts else None


# ---- programs: what is read and written in one version, flat

def min_bytes(message, field, version, nullable, compact):
    if field["array"] or field["type"] in ("bytes", "records"):
        return 1 if compact else 4
    if field["struct"] is not None:
        return 1 if nullable else struct_min_bytes(message, field["struct"], version)
    if field["type"] == "string":
        return 1 if compact else 2
    return PRIMITIVES[field["type"]][3]


def plain_fields(struct, version):
    return [f for f in struct["fields"] if in_range(version, f["versions"]) and not (f["tag"] is not None and in_range(version, f["tag_versions"]))]


def struct_min_bytes(message, struct, version):
    flexible = in_range(version, message["flexible"])
    return flexible + sum(min_bytes(message, f, version, in_range(version, f["null"]), flexible and not f["plain"])
                          for f in plain_fields(struct, version))


class Programs:
    """The programs of one message; equal ones are shared between versions."""

    def __init__(self, message):
        self.message, self.texts, self.rows = message, {}, []

    def op(self, struct, field, version, flexible):
        index, flags, program = struct["fields"].index(field), [], 0
        if in_range(version, field["null"]):
            flags.append("OT_WIRE_NULLABLE")
        if flexible and not field["plain"] and (field["array"] or field["type"] in ("string", "bytes", "records")):
            flags.append("OT_WIRE_COMPACT")
        if field["struct"] is not None:
            program = self.add(field["struct"], version)
            code = "STRUCTS" if field["array"] else "POINTER" if is_pointer(field) else "STRUCT"
        else:
            code = PRIMITIVES[field["type"]][2]
            code = {"I16": "16", "U16": "16", "I32": "32", "U32": "32", "I64": "64", "F64": "64", "I8": "8"}.get(code, code)
            code += "S" if field["array"] else ""
        return "{ OT_WIRE_OP_%s, %s, %d, offsetof(struct %s, %s), %d }" % (
            code, " | ".join(flags) or "0", index, struct_name(self.message, struct), snake(field["name"], True), program)

    def add(self, struct, version):
        flexible = in_range(version, self.message["flexible"])
        plain, tagged = plain_fields(struct, version), []
        for field in struct["fields"]:
            if in_range(version, field["versions"]) and field not in plain:
                if not flexible:
                    fail("%s: tag outside the flexible versions" % field["name"])
                tagged.append(field)
        tagged.sort(key=lambda field: field["tag"])
        absent = [f for f in struct["fields"] if not in_range(version, f["versions"])]
        ops = [self.op(struct, field, version, flexible) for field in plain + tagged]
        prefill = any(default_value(self.message, f) is not None for f in tagged + absent)
        size = struct_min_bytes(self.message, struct, version)
        if size == 0 and struct["in_array"]:
            fail("%s: elements of no bytes cannot be counted" % struct["name"])
        kept = [str(struct["fields"].index(f)) for f in absent if not f["ignorable"]]
        key = (struct["name"], struct is self.message["root"], tuple(ops), len(tagged), flexible, tuple(kept), size, prefill)
        if key not in self.texts:
            self.texts[key] = len(self.rows)
            self.rows.append((struct, ops, len(plain), len(tagged), flexible, kept, size, prefill))
        return self.texts[key]


def emit_programs(message, out):
    programs = Programs(message)
    low, high = message["versions"]
    roots = [programs.add(message["root"], version) for version in range(low, high + 1)]
    ops, absent, rows = [], [], []
    for struct, row_ops, plain, tagged, flexible, kept, size, prefill in programs.rows:
        kind = message["structs"].index(struct)
        flags = [name for name, on in (("OT_WIRE_FLEXIBLE", flexible), ("OT_WIRE_PREFILL", prefill)) if on]
        rows.append("{ %d, %d, %d, %d, %d, %d, %d, %s }" % (kind, len(ops), plain, tagged, len(absent), len(kept), size, " | ".join(flags) or "0"))
        ops += row_ops
        absent += kept
    out.append("static const struct ot_wire_op ops[] = {\n    %s\n};\n" % ",\n    ".join(ops or ["{ 0 }"]))
    if absent:
        out.append("static const uint16_t must_be_default[] = { %s };\n" % ", ".join(absent))
    out.append("static const struct ot_wire_program programs[] = {\n    %s\n};\n" % ",\n    ".join(rows))
    out.append("static const uint16_t roots[] = { %s };\n" % ", ".join(map(str, roots)))
    return bool(absent)


# ---- the C file

def range_text(versions):
    return "%d, %d" % versions if versions else "1, 0"


def emit_field(message, struct, field):
    text, flags, number, real = field["default"], [], "0", "0.0"
    for flag, on in (("ARRAY", field["array"]), ("NULL_DEFAULT", text == "null"), ("IGNORABLE", field["ignorable"]), ("KEY", field["key"])):
        if on:
            flags.append("OT_WIRE_FIELD_" + flag)
    if text not in (None, "null"):
        if field["type"] == "bool":
            number = "1" if text == "true" else "0"
        elif field["type"] in INTEGERS:
            number = integer(int(text), True)
        elif field["type"] == "float64":
            real = repr(float(text))
        elif field["type"] == "string" and json.loads(text):
            fail("%s: text defaults other than null and empty are not supported" % field["name"])
    if field["struct"] is not None:
        code, kind = "STRUCT", message["structs"].index(field["struct"])
        if is_pointer(field):
            flags.append("OT_WIRE_FIELD_POINTER")
    else:
        code, kind = PRIMITIVES[field["type"]][2], 0
    return '{ "%s", offsetof(struct %s, %s), OT_WIRE_%s, %s, %d, %d, %s, %s, %s, %s, %s }' % (
        field["name"][0].lower() + field["name"][1:], struct_name(message, struct), snake(field["name"], True), code, " | ".join(flags) or "0",
        kind, -1 if field["tag"] is None else field["tag"], range_text(field["versions"]), range_text(field["null"]),
        range_text(field["tag_versions"]), number, real)


def emit_source(message, source):
    name = c_name(message)
    out = [NOTE % source, '#include "base/wire/%s.h"\n' % snake(message["name"])]
    images = {}
    for struct in message["structs"]:
        image, sname = default_image(message, struct), struct_name(message, struct)
        if image is not None:
            out.append("static const struct %s %s_image = %s;" % (sname, sname, image))
            images[struct["name"]] = "&%s_image" % sname
        if any(is_pointer(f) and f["default"] is None and f["struct"] is struct for s in message["structs"] for f in s["fields"]):
            out.append("static const struct %s %s_zero = %s;" % (sname, sname, image or "{ 0 }"))
    for number, struct in enumerate(message["structs"]):
        if struct["fields"]:
            out.append("static const struct ot_wire_field fields_%d[] = {\n    %s\n};" % (
                number, ",\n    ".join(emit_field(message, struct, field) for field in struct["fields"])))
    rows = []
    for number, struct in enumerate(message["structs"]):
        sname = struct_name(message, struct)
        tags = "offsetof(struct %s, _tags)" % sname if has_tags(message) else "OT_WIRE_NO_TAGS"
        rows.append('{ "%s", %s, %s, sizeof(struct %s), %d, %s }' % (
            struct["name"], "fields_%d" % number if struct["fields"] else "NULL", images.get(struct["name"], "NULL") if struct is not message["root"]
            else ("&%s_image" % sname if default_image(message, struct) else "NULL"), sname, len(struct["fields"]), tags))
    out.append("static const struct ot_wire_struct structs[] = {\n    %s\n};\n" % ",\n    ".join(rows))
    absent = emit_programs(message, out)
    low, high = message["versions"]
    out.append("const struct ot_wire_message %s_message = {\n"
               '    .name = "%s", .kind = OT_WIRE_%s, .area = OT_WIRE_AREA_%s, .frame = OT_WIRE_FRAME_%s, .api = %d,\n'
               "    .version_min = %d, .version_max = %d, .flexible_min = %d, .unstable = %s,\n"
               "    .structs = structs, .root = %d, .ops = ops, .must_be_default = %s, .programs = programs, .roots = roots\n};\n" % (
                   name, message["name"], message["kind"].replace("-", "_").upper(), message["area"].replace("-", "_").upper(),
                   message["frame"].upper(), -1 if message["api"] is None else message["api"], low, high,
                   message["flexible"][0] if message["flexible"] else high + 1, "true" if message["unstable"] else "false",
                   message["structs"].index(message["root"]), "must_be_default" if absent else "NULL"))
    return "\n".join(out)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    files, messages = {}, []
    for folder in ("schema", "schema_ottla"):
        for path in sorted((HERE / folder).glob("*.txt")):
            message = parse(path)
            if message["versions"] is None:
                continue
            messages.append(message)
            files[snake(message["name"]) + ".h"] = lambda m=message, s=folder + "/" + path.name: emit_header(m, s)
            files[snake(message["name"]) + ".c"] = lambda m=message, s=folder + "/" + path.name: emit_source(m, s)
    for stem, emit in (("apis", emit_apis), ("enums", emit_enums), ("features", emit_features), ("messages", emit_messages)):
        for kind in ("h", "c"):
            files["%s.%s" % (stem, kind)] = lambda e=emit, k=kind: e(HERE, messages, k)
    out = pathlib.Path(arguments[0])
    if "--list" in sys.argv:
        print("\n".join(str(out / name) for name in files))
        return
    out.mkdir(parents=True, exist_ok=True)
    for stale in set(path.name for path in out.iterdir()) - set(files):
        (out / stale).unlink()
    for name, text in files.items():
        text = text()
        if not (out / name).exists() or (out / name).read_text(encoding="utf-8") != text:
            (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
