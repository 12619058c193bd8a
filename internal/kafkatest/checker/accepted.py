"""What people have accepted of episodes, and what learners have made of it: as docs/wire-format.md says it ("Accepted episodes")."""

import episodes

COMMAND, FACT = "episode_accept", "episode_accepted"
MARKS = 1000  # a position may be behind the marks of transactions after the last message
FIELDS = {"schema", "type", "id", "group", "topic", "partition", "series", "model_id", "from", "to", "by", "time", "message"}


def check(records, ends, fault):
    """Checks the commands and the facts among the records of episodes, and returns the others. Codes: ACCEPT_DUP, ACCEPT_WRONG."""
    commands, followed, begun = {}, {}, {}
    for where, rec, event in sorted(records, key=lambda one: (one[1]["partition"], one[1]["offset"])):
        place = rec["partition"], rec["offset"]
        try:
            if event["type"] == COMMAND:
                shape(rec, event, set())
                if event["id"] not in begun:
                    raise ValueError("no such episode was told before it")
                commands[place] = event
            elif event["type"] == FACT:
                shape(rec, event, {"command", "at", "rows"})
                command = event["command"]["partition"], event["command"]["offset"]
                if command in followed:
                    fault("ACCEPT_DUP", f"{where}: the command at {command} was followed before, at {followed[command]}")
                followed[command] = place
                of = commands.get(command)
                if of is None or any(event.get(k) != of.get(k) for k in (FIELDS | {"until"}) - {"type", "time", "message"}):
                    raise ValueError(f"the command at {command} says {of}")
                at = {int(p): offset for p, offset in event["at"].items()}
                if at.get(event["partition"], -1) < event.get("until", 0) or any(not 0 <= offset <= ends.get(p, 0) + MARKS for p, offset in at.items()):
                    raise ValueError(f"no learner can be at {at}: the partitions end at {ends}")
                if type(event["rows"]) is not int or event["rows"] < 0:
                    raise ValueError("it says no number of rows")
                begun[event["id"]] = True
            elif not begun.setdefault(event.get("id"), False) and event.get("reason") == "accepted":
                raise ValueError("the episode is closed as accepted, and no learner has accepted it")
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            fault("ACCEPT_WRONG", f"{where}: {e!r}: {rec['value'][:900]}")
    return [one for one in records if one[2]["type"] not in (COMMAND, FACT)]


def shape(rec, event, more):
    """Raises what is wrong with a record by itself."""
    if event.keys() - {"series_base64", "until"} != FIELDS | more or event["schema"] != 1:
        raise ValueError(f"it has the fields {sorted(event)}")
    if rec["key"].decode() != event["id"].rpartition("/")[0] or dict(rec["headers"])["content-type"] != b"application/json":
        raise ValueError("its key or its type is another")
    for place in (event["from"], event["to"] or event["from"]):
        if not place.keys() == {"offset", "row", "time"}:
            raise ValueError(f"{place} is no row")
        episodes.instant(place["time"])
    if not event["by"] or not event["message"] or episodes.instant(event["time"]) is None:
        raise ValueError("it does not say who said so, when or what")
