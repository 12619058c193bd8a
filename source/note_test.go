package source

import (
	"strings"
	"testing"
)

func TestNote(t *testing.T) {
	id := topicID([16]byte{0x4d, 0x40, 0x77, 0xca, 0xa2, 0x56, 0x40, 0x35, 0xb7, 0x6b, 0xec, 0xe1, 0xcc, 0x64, 0x39, 0x64})
	if id != "TUB3yqJWQDW3a-zhzGQ5ZA" || topicID([16]byte{}) != "" {
		t.Errorf("ids are spelt %q and %q", id, topicID([16]byte{}))
	}
	if text := NewNote(id, "").String(); text != `{"v":1,"topic_id":"TUB3yqJWQDW3a-zhzGQ5ZA"}` {
		t.Errorf("the committed text is %s", text)
	}
	for _, c := range []struct{ name, text, id string }{
		{"ours", NewNote(id, "").String(), id},
		{"of a broker without ids", `{"v":1}`, ""},
		{"with more than we know", `{"v":1,"topic_id":"a","more":2}`, "a"},
		{"of the first edition", "", ""},
		{"of another program", "consumer-7 was here", ""},
		{"JSON of another program", `{"topic_id":"a"}`, ""},
		{"a list", `[1]`, ""},
		{"other types", `{"v":"1"}`, ""},
	} {
		if n, err := ParseNote(c.text); err != nil || n.TopicID != c.id || (n.Version == 1) != strings.HasPrefix(c.text, `{"v":1`) {
			t.Errorf("%s: %+v, %v; want id %q", c.name, n, err, c.id)
		}
	}
	written := NewNote("a", "")
	written.Outputs = &Outputs{From: 3, Ends: map[string]End{"out": {TopicID: "b", Partition: 2, Offset: 5, Written: 7}}}
	text := `{"v":1,"topic_id":"a","from":3,"ends":{"out":{"topic_id":"b","partition":2,"offset":5,"written":7}}}`
	if n, err := ParseNote(text); written.String() != text || err != nil || n.String() != text {
		t.Errorf("what is written is noted as %s, and read as %s, %v", written, n, err)
	}
	if _, err := ParseNote(`{"v":2,"topic_id":"a"}`); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer note: %v", err)
	}
}
