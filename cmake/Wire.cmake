# Message codecs: generated from base/wire/schema/*.txt at build time (placeholder until the generator lands).
