#!/usr/bin/env python3
"""Write openapi/ottla.json, which the server carries beside the YAML, from openapi/ottla.yaml. Needs PyYAML (./dev setup)."""
import json
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent


def main():
    document = yaml.safe_load((HERE / "ottla.yaml").read_text())
    (HERE / "ottla.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
