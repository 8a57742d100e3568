"""kafka_configs.py CONFIGS-TABLE OUT: Kafka's config table as C rows K(name, type, default, valid, update mode, synonyms)."""
import sys


def text(value):
    if value == "null":
        return "NULL"
    if value in ('""', "-", "required"):
        return '""' if value == '""' else "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    source, target = sys.argv[1:3]
    rows = []
    with open(source, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            name, kind, default, valid, _importance, update, internal, synonyms = line.rstrip("\n").split("\t")
            if internal == "yes":
                continue
            rows.append(f'K("{name}", {kind}, {text(default)}, {text(valid)}, "{update}", {text(synonyms)})')
    with open(target, "w", encoding="utf-8") as out:
        out.write("\n".join(rows) + "\n")


main()
