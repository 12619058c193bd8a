package episodes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// longest is the longest record that is read: several times what an episode takes.
	longest = 64 << 10

	// room is how many bytes of records are kept: 20,000 episodes or more.
	room = 32 << 20
)

// told is what a topic tells of episodes.
type told struct {
	only string // the episode that is looked for; "": all
	room int    // in bytes

	last      map[string]*entry // the last record of each episode
	bytes     int               // of last
	forgotten int               // episodes that there was no room for
	others    int               // records that tell of something else
	unread    int               // records and batches that cannot be read …
	fault     error             // … and why the first of them cannot
}

// entry is an episode by its last record.
type entry struct {
	id        string
	value     []byte              // the record
	accepted  *episode.Acceptance // the last one; nil: none
	alone     bool                // it is all that there is: value is that
	open      bool
	seq       int
	at        time.Time // of the record
	partition int32     // of the topic
	offset    int64
}

// size is about how many bytes of memory an entry takes.
func (e *entry) size() int {
	size := len(e.id) + len(e.value) + 200
	if e.accepted != nil {
		size += 2*len(e.id) + len(e.accepted.By) + len(e.accepted.Message) + 500
	}
	return size
}

// take takes what was fetched of a partition of the topic.
func (t *told) take(of source.Partition, got *source.Fetched) {
	for i := range got.Records {
		t.add(of.ID, &got.Records[i])
	}
	for _, r := range got.Rejected {
		t.pass(of.ID, r.Offset, r.Err)
	}
}

// pass passes over what cannot be read.
func (t *told) pass(partition int32, offset int64, why error) {
	if t.unread++; t.fault == nil {
		t.fault = fmt.Errorf("partition %d, offset %d: %w", partition, offset, why)
	}
}

// add takes a record.
func (t *told) add(partition int32, r *source.Record) {
	if a, err := readAcceptance(r.Value); a != nil || err != nil {
		t.accept(partition, r, a, err)
		return
	}
	record, err := read(r.Value)
	switch {
	case errors.Is(err, errOther):
		t.others++
		return
	case err != nil:
		t.pass(partition, r.Offset, err)
		return
	case t.only != "" && record.ID != t.only:
		return
	}
	before := t.last[record.ID]
	if before != nil && !before.alone && before.partition != partition && before.seq > record.Seq { // the topic has gained partitions since
		return
	}
	e := &entry{
		id: record.ID, value: compact(r.Value), open: record.Type != episode.Closed, seq: record.Seq,
		at: time.UnixMilli(r.Timestamp).UTC(), partition: partition, offset: r.Offset,
	}
	if before != nil {
		e.accepted = before.accepted
	}
	t.put(e)
}

// accept takes a record that says that an episode is normal. It is behind those of the episode, in their partition. Where they are compacted away, it is all
// that is known of the episode.
func (t *told) accept(partition int32, r *source.Record, a *episode.Acceptance, err error) {
	switch {
	case err != nil:
		t.pass(partition, r.Offset, plainly(err))
		return
	case t.only != "" && a.ID != t.only:
		return
	}
	e := t.last[a.ID]
	if e == nil {
		t.put(&entry{id: a.ID, value: compact(r.Value), accepted: a, alone: true, open: a.To == nil, at: time.UnixMilli(r.Timestamp).UTC(), partition: partition, offset: r.Offset})
		return
	}
	if learnt(e.accepted) > 0 && learnt(a) == 0 { // said again: that nothing was left to be learnt says nothing of what was
		return
	}
	t.bytes -= e.size()
	if e.accepted = a; e.alone {
		e.value = compact(r.Value)
	}
	t.bytes += e.size()
}

// learnt returns the number of rows that the learner has learnt for an acceptance, 0 until it has followed.
func learnt(a *episode.Acceptance) int {
	if a == nil || a.Rows == nil {
		return 0
	}
	return *a.Rows
}

// put adds an entry, which may take the place of another one.
func (t *told) put(e *entry) {
	if before := t.last[e.id]; before != nil {
		t.bytes -= before.size()
	}
	if t.last == nil {
		t.last = map[string]*entry{}
	}
	t.last[e.id] = e
	if t.bytes += e.size(); t.bytes > 2*t.room {
		t.forget()
	}
}

// record is the last record of the episode, or what its acceptance says of it.
func (e *entry) record() (*episode.Record, error) {
	r := new(episode.Record)
	if !e.alone {
		return r, json.Unmarshal(e.value, r)
	}
	a := e.accepted
	*r = episode.Record{
		Schema: a.Schema, Type: episode.Updated, ID: a.ID, Group: a.Group, Topic: a.Topic, Partition: a.Partition, Series: a.Series, Base64: a.Base64, ModelID: a.ModelID,
		From: a.From, Message: a.Message,
	}
	if a.To != nil {
		r.Type, r.To = episode.Closed, *a.To
	}
	return r, nil
}

// known reports whether a record says more than where its episode began.
func known(r *episode.Record) bool { return r.Budget != "" }

// forget leaves out the last ones of the order until there is room.
func (t *told) forget() {
	all := t.inOrder()
	for t.bytes > t.room {
		e := all[len(all)-1]
		all = all[:len(all)-1]
		delete(t.last, e.id)
		t.bytes -= e.size()
		t.forgotten++
	}
}

// inOrder returns the episodes: open ones first, then by the time of their last record, the newest first.
func (t *told) inOrder() []*entry {
	return slices.SortedFunc(maps.Values(t.last), func(a, b *entry) int {
		if a.open != b.open {
			if a.open {
				return -1
			}
			return 1
		}
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.partition, b.partition), cmp.Compare(b.offset, a.offset))
	})
}

// errOther is of a record that tells of something else than an episode.
var errOther = errors.New("no episode")

// read reads a record of an episode.
func read(value []byte) (*episode.Record, error) {
	if !bytes.Contains(value, []byte(`"episode_`)) { // most are of rows: they need not be parsed
		return nil, errOther
	}
	if len(value) > longest {
		return nil, fmt.Errorf("%d bytes are no record of an episode", len(value))
	}
	r := new(episode.Record)
	if err := json.Unmarshal(value, r); err != nil {
		var kind struct{ Type string }
		if json.Unmarshal(value, &kind) != nil || !strings.HasPrefix(kind.Type, "episode_") {
			return nil, errOther
		}
		return nil, plainly(err)
	}
	switch {
	case !strings.HasPrefix(r.Type, "episode_"):
		return nil, errOther
	case r.Type != episode.Opened && r.Type != episode.Updated && r.Type != episode.Closed:
		return nil, fmt.Errorf("its type is %q, which this release does not know", r.Type)
	case r.ID == "":
		return nil, errors.New("it has no id")
	}
	return r, nil
}

// readAcceptance reads a command or a fact; nil: it is neither.
func readAcceptance(value []byte) (*episode.Acceptance, error) {
	a, err := episode.ReadAcceptance(value, episode.AcceptCommand)
	if a == nil && err == nil {
		a, err = episode.ReadAcceptance(value, episode.AcceptFact)
	}
	return a, err
}

// plainly says what is wrong with a record without the names of our types.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	what, _, _ := strings.Cut(wrong.Value, " ")
	return fmt.Errorf("its field %s is of type %s", wrong.Field, what)
}

// compact is a record in one line. It is a copy: the buffer that a record comes in is that of many.
func compact(value []byte) []byte {
	var line bytes.Buffer
	_ = json.Compact(&line, value) // it has been read
	return bytes.Clone(line.Bytes())
}

// passed says which records of the topic are not in the answer; "": all that is there is in it.
func (t *told) passed() string {
	var b strings.Builder
	if t.forgotten > 0 {
		fmt.Fprintf(&b, "the topic tells of more episodes than there is room for: %d of the oldest are left out\n", t.forgotten)
	}
	if t.unread > 0 {
		fmt.Fprintf(&b, "%s passed over that cannot be read: %s\n", were(t.unread), terminal.Line(t.fault.Error()))
	}
	return b.String()
}

func were(n int) string {
	if n == 1 {
		return "1 record was"
	}
	return fmt.Sprintf("%d records were", n)
}
