"""Checks what two real servers and the nights with them left behind.

usage: check.py DIR isolated|open     DIR: as scripts/real-servers leaves it
"""

import json
import pathlib
import sys
from collections import Counter

import jsonschema

DIMENSION = 384  # multilingual-e5-small
folder, network = pathlib.Path(sys.argv[1]), sys.argv[2]
failures = 0


def lines(name):
    with open(folder / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check(holds, text):
    global failures
    failures += not holds
    print("ok   " if holds else "FAIL ", text)


def is_valid(exchange):
    """Whether a reply is JSON as the schema of its own request says."""
    schema = exchange["request"]["response_format"]["json_schema"]["schema"]
    try:
        jsonschema.validate(json.loads(exchange["reply"]["choices"][0]["message"]["content"]), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def chat():
    asked = [e for e in lines("chat.jsonl") if e["path"] == "/v1/chat/completions"]
    print("     chat requests:", dict(Counter(str(e["status"]) for e in asked)))
    answered = [e for e in asked if e["status"] == 200]
    ends = Counter(e["reply"]["choices"][0]["finish_reason"] for e in answered)
    seconds = sum(e["seconds"] for e in asked)
    usage = [e["reply"]["usage"] for e in answered]
    tokens = [sum(u[name] for u in usage) for name in ("prompt_tokens", "completion_tokens")]
    print(f"     replies: {dict(ends)}, {tokens[0]} tokens in, {tokens[1]} out, {seconds:.0f} seconds")
    for e in asked:
        if e["status"] != 200:
            print(f"     {e['status']} after {e['seconds']:.0f} s: {json.dumps(e['reply'], ensure_ascii=False)[:300]}")
    check(asked and all("json_schema" in e["request"].get("response_format", {}) for e in asked),
          "every chat request asked for the schema")
    whole = [e for e in answered if e["reply"]["choices"][0]["finish_reason"] == "stop"]
    valid = sum(map(is_valid, whole))
    check(whole and valid == len(whole), f"{valid} of {len(whole)} replies that ended by themselves are JSON of the schema")


def embeddings():
    asked = [e for e in lines("embed.jsonl") if e["path"] == "/v1/embeddings"]
    check(asked and all(e["status"] == 200 for e in asked), f"all {len(asked)} embedding requests were answered")
    vectors = [d["embedding"] for e in asked if e["status"] == 200 for d in e["reply"]["data"]]
    check(all(len(v) == DIMENSION for v in vectors), f"{len(vectors)} vectors of {DIMENSION} numbers came back")


def memories():
    first, second, third = (lines(f"memories-{night}.jsonl") for night in ("first", "second", "third"))
    print(f"     memories after each night: {len(first)}, {len(second)}, {len(third)}")
    check(third, "the nights left memories")
    texts = Counter(row["text"] for row in third)
    check(all(times == 1 for times in texts.values()), "no text is stored twice")
    # What was held back for a reply that broke off is tried again, so there may be more.
    kept = all(row["text"] in texts for row in second)
    check(kept and len(third) >= len(second), "the third night, with nothing new to read, lost nothing")


def isolation():
    if network != "isolated":
        return print("     not shown: that nothing left this machine")
    with open("/proc/net/dev", encoding="utf-8") as file:
        interfaces = [line.split(":")[0].strip() for line in file if ":" in line]
    check(interfaces == ["lo"], "nothing left this machine: there was no network but loopback")


for part in chat, embeddings, memories, isolation:
    part()
sys.exit(failures > 0)
