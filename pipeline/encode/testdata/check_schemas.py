"""Checks JSON Schemas of outputs as readers do: check_schemas.py FILE, a list of {before, after, row, ours, references}.

By the schema before, the row is valid. By the one after it is, with our keys and without them. With another key it is as it was.
"""

import json
import sys

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

faults = []
cases = json.load(open(sys.argv[1], encoding="utf-8"))
for case in cases:
    registry = Registry().with_resources([(name, Resource.from_contents(schema, default_specification=DRAFT7)) for name, schema in case["references"].items()])

    def takes(schema, *added):
        value = case["row"]
        keys = {name: v for one in added for name, v in one.items()}
        value = [row | keys for row in value] if isinstance(value, list) else value | keys
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
        return kind(schema, registry=registry).is_valid(value)

    before, after, other = case["before"], case["after"], {"other": object.__name__}
    if not takes(before) or not takes(after) or not takes(after, case["ours"]) or takes(before, other) != takes(after, other):
        faults.append([case, takes(before), takes(after), takes(after, case["ours"]), takes(before, other), takes(after, other)])
if faults:
    sys.exit(json.dumps(faults, indent=1))
print(len(cases))
