package start

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Starts are the start markers on the checkpoint topic. They are what is left of a group when its committed offsets
// are gone, because they expired or were deleted with their topic. They are small records among the checkpoints, kept
// by compaction, with JSON values under these keys:
//
//	start/<group>/<topic>/<partition>    {"v":1,"topic_id":"…","offset":7}             the group has begun here; where it was when this was written; of a transform also "since", as in source.Note
//	start/<group>/<topic>/first          {"v":1,"topic_id":"…","offsets":{"0":7,…}}    where each partition begins: resolved once, at the group's first start
//	start/<group>/<topic>/first/<model>  the same for the learner of a model; "chosen":true if offsets reset has written it
//
// A learner of models by key has its own, start/<group>/<topic>/models/<models>/<partition> and …/first, see Positions.Ours. With a model for each
// key the markers of a partition are in the same partition of the topic, and "first" is in its first one, with "all":true.
//
// They are read only if a committed offset is missing: at a first start, and after a loss. What was read is kept, and
// reading goes on from there. Methods may be called from any goroutine.
type Starts struct {
	checkpoint.ReadBack       // of a partition of the checkpoint topic
	Partition           int32 // its number: with a model for each key, that of the source partition

	once sync.Once
	turn chan struct{} // holds the permission to read on
	log  checkpoint.TopicReader
	next int64
	seen map[string]Start
}

// Start is the value of a start marker.
type Start struct {
	Version int              `json:"v"`
	TopicID string           `json:"topic_id,omitempty"`
	Offset  int64            `json:"offset"`
	Since   source.Since     `json:"since,omitempty"`   // as in source.Note
	Offsets map[string]int64 `json:"offsets,omitempty"` // partition → offset; only in "first"
	Chosen  bool             `json:"chosen,omitempty"`  // an operator has set Offsets, whatever source.start_offset says
	All     bool             `json:"all,omitempty"`     // of "first", with a model for each key: it counts for all partitions
	Exact   bool             `json:"exact,omitempty"`   // each transaction of the learner of models by key carries one: Offset is what the last of them committed
}

// of returns where "first" says that a partition begins.
func (s Start) of(p source.Partition) (offset int64, known bool) {
	offset, known = s.Offsets[strconv.Itoa(int(p.ID))]
	return offset, known
}

// StartVersion is the version of start markers that this program writes.
const StartVersion = 1

// Read reads everything that is committed so far, and returns all markers by key.
func (s *Starts) Read(ctx context.Context) (map[string]Start, error) {
	s.once.Do(func() { s.turn, s.seen = make(chan struct{}, 1), map[string]Start{} })
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.readOn(ctx); err != nil {
		s.log, s.next = nil, 0 // from the beginning again, because the topic may have been created again
		return nil, fmt.Errorf("pipeline: start markers on topic %s: %w", s.Topic, err)
	}
	return maps.Clone(s.seen), nil
}

func (s *Starts) readOn(ctx context.Context) error {
	end, err := s.End(ctx)
	if err != nil || end <= s.next {
		return err
	}
	if s.log == nil {
		if s.log, err = s.Open(ctx, 0); err != nil {
			return err
		}
	}
	on := s.ReadBack
	on.Open = func(context.Context, int64) (checkpoint.TopicReader, error) { return s.log, nil }
	return on.From(ctx, s.next, end, func(got *source.Fetched) error {
		for _, r := range got.Records {
			if err := s.take(string(r.Key), r.Value); err != nil {
				return err
			}
		}
		s.next = got.Next
		return nil
	})
}

func (s *Starts) take(key string, value []byte) error {
	if !strings.HasPrefix(key, "start/") {
		return nil
	}
	if value == nil {
		delete(s.seen, key)
		return nil
	}
	v, ok, err := s.parse(key, value)
	if ok {
		s.seen[key] = v
	}
	return err
}

// parse reads a marker. What is none gives false: a model may be called "start".
func (s *Starts) parse(key string, value []byte) (v Start, ok bool, err error) {
	if err := json.Unmarshal(value, &v); err != nil || v.Version < 1 {
		return v, false, nil
	}
	if v.Version > StartVersion {
		return v, false, &reject.Stop{
			Err:    fmt.Errorf("start marker %s on topic %s has version %d and this program reads %d", key, s.Topic, v.Version, StartVersion),
			Remedy: "a newer lca-stream has written it: use that one",
		}
	}
	return v, true, nil
}

// newest returns the last marker of a key. It is looked for from the topic's end, because most often it is one of the last records.
func (s *Starts) newest(ctx context.Context, key string) (v Start, ok bool, err error) {
	var value []byte
	_, err = s.ReadNewest(ctx, 0, func(r *source.Record) bool {
		if string(r.Key) != key {
			return false
		}
		value = bytes.Clone(r.Value)
		return true
	})
	if err != nil || value == nil {
		return v, false, err
	}
	return s.parse(key, value)
}

func markerKey(group string, p source.Partition) string {
	return fmt.Sprintf("start/%s/%s/%d", group, p.Topic, p.ID)
}

func firstKey(group, topic, model string) string {
	if model != "" {
		return fmt.Sprintf("start/%s/%s/first/%s", group, topic, model)
	}
	return fmt.Sprintf("start/%s/%s/first", group, topic)
}

// others reports whether there is a marker of any partition whose key begins like that.
func others(seen map[string]Start, prefix string) bool {
	for key := range seen {
		rest, ok := strings.CutPrefix(key, prefix)
		if _, err := strconv.Atoi(rest); ok && err == nil {
			return true
		}
	}
	return false
}

// startMarker returns the record that says that the group has begun in a partition, and is at an offset.
func (p *Positions) startMarker(part source.Partition, id string, next int64) sink.Message {
	return p.Starts.Message(p.markerKey(part), Start{Version: StartVersion, TopicID: id, Offset: next, Since: p.counts(part), Exact: p.Models != ""})
}

// first returns the record that says where every partition begins, whether an operator has said so, and whether it counts for all partitions where each
// has markers of its own.
func (s *Starts) first(key, id string, at source.Offsets, chosen, all bool) sink.Message {
	v := Start{Version: StartVersion, TopicID: id, Offsets: make(map[string]int64, len(at)), Chosen: chosen, All: all}
	for p, next := range at {
		v.Offsets[strconv.Itoa(int(p.ID))] = next
	}
	return s.Message(key, v)
}

// Message is the record of a start marker.
func (s *Starts) Message(key string, v Start) sink.Message {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts can always be encoded
	}
	return sink.Message{Topic: s.Topic, Partition: s.Partition, Key: []byte(key), Value: value}
}
