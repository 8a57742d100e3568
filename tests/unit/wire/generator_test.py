#!/usr/bin/env python3
"""The generator takes a schema with every word of the grammar, and refuses broken ones with the place and the reason."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parents[3] / "base" / "wire"
HEAD = "message %s\nkind request\narea rpc\napi 7\nversions 0-3\nflexible 2+\nunstable no\n"


def parse(text, name="TestRequest"):
    """The answer of the parser in a process of its own: it ends the process when it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / (name + ".txt")
        path.write_text(text, encoding="utf-8")
        code = "import sys, pathlib; sys.path.insert(0, %r); import schema, generate\nm = schema.parse(pathlib.Path(sys.argv[1]))\n" \
               "print(generate.emit_header(m, 'x'), generate.emit_source(m, 'x'))" % str(HERE)
        done = subprocess.run([sys.executable, "-B", "-c", code, str(path)], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr


class Generator(unittest.TestCase):
    def refuses(self, fields, words, head=HEAD % "TestRequest"):
        code, _, err = parse(head + fields)
        self.assertNotEqual(code, 0, "taken: " + fields)
        self.assertIn(words, err)
        self.assertNotIn("Traceback", err)

    def test_every_word_of_the_grammar_is_taken(self):
        code, out, err = parse(HEAD % "TestRequest" + """struct Shared v=0+
  Id int32 v=0+ default=-1
fields
  Gone int32 v=9+
  Old string v=0-1 ignorable
  Default string v=0+ null=1+ default=null flex=none entity=groupId
  Text string v=0+
  Deep []Inner v=0+ null=0+ default=null
    Key int64 v=0+ key default=-9223372036854775808
    One Shared v=1+
  Maybe Shared v=2+ null=2+ default=null
  Tagged []Shared v=2+ tag=0@2+
  Bytes bytes v=0+ zerocopy
  Blobs []bytes v=0+
  Flag bool v=0+ default=true
  Real float64 v=0+ default=0.5
end
""")
        self.assertEqual((code, err), (0, ""))
        for words in ("struct ot_str default_;", "const struct ot_test_request_shared *maybe;", "INT64_MIN", "struct ot_test_request_inner_array deep;",
                      ".flag = true", ".real = 0.5", ".default_ = { .null = true }", "OT_TEST_REQUEST_API = 7", "struct ot_blob_array blobs;"):
            self.assertIn(words, out)
        self.assertNotIn("gone", out)

    def test_broken_schemas_are_refused(self):
        self.refuses("fields\n  A int31 v=0+\nend\n", "unknown type int31")
        self.refuses("fields\n  A int32\nend\n", "not a field")
        self.refuses("fields\n  A int32 v=0..3\nend\n", "bad range")
        self.refuses("fields\n  A int32 v=0+ colour=red\nend\n", "unknown word 'colour=red'")
        self.refuses("fields\n  A int32 v=0+\n  A int16 v=0+\nend\n", "used twice")
        self.refuses("fields\n  A int32 v=2+ tag=0@2+\n  B int32 v=2+ tag=0@2+\nend\n", "used twice")
        self.refuses("fields\n  A int32 v=1+ tag=0@1+\nend\n", "tag outside the flexible versions")
        self.refuses("fields\n  A int32 v=0+ null=0+\nend\n", "cannot be null")
        self.refuses("fields\n  A []records v=0+\nend\n", "records are neither")
        self.refuses("fields\n    A int32 v=0+\nend\n", "bad indent")
        self.refuses("struct S v=0+\n  Again S v=0+\nfields\n  A S v=0+\nend\n", "S holds itself")
        self.refuses("fields\n  A []S v=0+\n    B int32 v=1+\nend\n", "elements of no bytes")
        self.refuses("fields\n  A int32 v=0+\n", "no end")
        self.refuses("fields\nend\n", "bad message", HEAD % "OtherRequest")
        self.refuses("fields\nend\n", "bad message, kind", (HEAD % "TestRequest").replace("kind request", "kind question"))

    def test_a_refusal_names_the_line(self):
        _, _, err = parse(HEAD % "TestRequest" + "fields\n  A int32 v=0+\n  B int32 v=x\nend\n")
        self.assertIn("TestRequest.txt:10: bad range 'x'", err)


if __name__ == "__main__":
    unittest.main()
