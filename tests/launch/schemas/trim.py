"""Write the schemas of this folder again, without what validation ignores.

    python tests/launch/schemas/trim.py FOLDER

FOLDER holds the CustomResourceDefinitions of kubeflow/trainer and JobSet, and
Kubernetes' `_definitions.json`; README.md says which, and where they are.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
# Beside types, names and values: texts, and what only a server acts on.
SAID = "description", "default"
OPEN = "x-kubernetes-preserve-unknown-fields"


def trim(schema: Any, named: bool = False) -> Any:
    """Types, fields and values; no field that is not listed (strict)."""
    if isinstance(schema, list):
        return [trim(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if named:  # a mapping from names, which may be any word, to schemas
        return {name: trim(part) for name, part in schema.items()}
    kept = {
        word: trim(part, named=word in ("properties", "$defs"))
        for word, part in schema.items()
        if word not in SAID and not word.startswith("x-")
    }
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in kept and not schema.get(OPEN):
        kept.setdefault("additionalProperties", False)
    return kept


def reached(definitions: dict[str, Any], name: str) -> dict[str, Any]:
    """The definitions that `name` needs, itself among them."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        if (name := waiting.pop()) in found:
            continue
        found[name] = definitions[name]
        for piece in json.dumps(found[name]).split('"$ref": "')[1:]:
            waiting.append(piece.split('"')[0].rpartition("/")[2])
    return found


def main(folder: Path) -> None:
    """Read the originals in `folder`, write the trimmed ones."""
    schemas = {}
    for kind, group in {
        "trainjob": "trainer.kubeflow.org",
        "trainingruntime": "trainer.kubeflow.org",
        "jobset": "jobset.x-k8s.io",
    }.items():
        path = folder / f"{group}_{kind}s.yaml"
        (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
        schemas[kind] = version["schema"]["openAPIV3Schema"]
    text = (folder / "_definitions.json").read_text()
    definitions = json.loads(text)["$defs"]
    for kind, group in {"job": "batch", "service": "core"}.items():
        name = f"io.k8s.api.{group}.v1.{kind.capitalize()}"
        schemas[kind] = {
            "$defs": reached(definitions, name),
            "$ref": f"#/$defs/{name}",
        }
    for kind, schema in schemas.items():
        small = json.dumps(trim(schema), separators=(",", ":"))
        (HERE / f"{kind}.json").write_text(small + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
