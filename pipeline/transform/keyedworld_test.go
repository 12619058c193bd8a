package transform

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// keyedTopic is a partition of a snapshot topic in memory, as a broker has it: records can vanish, and offsets stay.
type keyedTopic struct {
	t    testing.TB
	keep int

	mu      sync.Mutex
	records []recordbatch.Record
	next    int64
	grown   chan struct{}
	faults  []error // of the next fetches
	most    int     // records of one fetch; 0: all

	slots  map[string]snapshot.Slots
	number map[string]uint64
}

func newKeyedTopic(t testing.TB, keep int) *keyedTopic {
	return &keyedTopic{t: t, keep: keep, grown: make(chan struct{}), slots: map[string]snapshot.Slots{}, number: map[string]uint64{}}
}

// append adds messages as one transaction would.
func (k *keyedTopic) append(messages ...sink.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		k.records = append(k.records, recordbatch.Record{Offset: k.next, Timestamp: 1000, Key: m.Key, Value: m.Value, Headers: m.Headers})
		k.next++
	}
	k.next++ // the end of the transaction
	close(k.grown)
	k.grown = make(chan struct{})
}

// publish adds a snapshot.
func (k *keyedTopic) publish(s *snapshot.Snapshot) {
	k.append(k.messages(s)...)
}

func (k *keyedTopic) messages(s *snapshot.Snapshot) []sink.Message {
	k.t.Helper()
	s.Number = k.number[s.ModelID]
	k.number[s.ModelID]++
	messages, slots, err := snapshot.Messages(s, "snapshots", k.keep, k.slots[s.ModelID])
	if err != nil {
		k.t.Fatal(err)
	}
	k.slots[s.ModelID] = slots
	return messages
}

// retire deletes a model.
func (k *keyedTopic) retire(id string) {
	k.append(snapshot.Tombstones(id, "snapshots", k.slots[id])...)
	delete(k.slots, id)
	delete(k.number, id)
}

// compact removes what was overwritten, as brokers do after some time. Tombstones stay, for those who follow the topic.
func (k *keyedTopic) compact() {
	k.mu.Lock()
	defer k.mu.Unlock()
	newest := map[string]int64{}
	for _, r := range k.records {
		newest[string(r.Key)] = r.Offset
	}
	k.records = slices.DeleteFunc(slices.Clone(k.records), func(r recordbatch.Record) bool { return newest[string(r.Key)] != r.Offset })
}

func (k *keyedTopic) end(context.Context, int32) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next, nil
}

func (k *keyedTopic) open(_ context.Context, _ int32, from int64) (models.ModelLog, error) {
	return &keyedTopicLog{topic: k, next: from}, nil
}

type keyedTopicLog struct {
	topic  *keyedTopic
	next   int64
	reused bool
	given  []recordbatch.Record
}

func (l *keyedTopicLog) Move(next int64) { l.next = next }

func (l *keyedTopicLog) Want(int64) {}

func (l *keyedTopicLog) Reuse() { l.reused = true }

// spoil overwrites what the last Fetch gave, where that may be.
func (l *keyedTopicLog) spoil() {
	for _, r := range l.given {
		for i := range r.Value {
			r.Value[i] = 0xAA
		}
		for i := range r.Key {
			r.Key[i] = 'x'
		}
	}
	l.given = nil
}

// copied is a record that nothing else points into.
func copied(r recordbatch.Record) recordbatch.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	return r
}

func (l *keyedTopicLog) Fetch(ctx context.Context) (source.Fetched, error) {
	k := l.topic
	l.spoil()
	for {
		k.mu.Lock()
		if len(k.faults) > 0 {
			err := k.faults[0]
			k.faults = k.faults[1:]
			k.mu.Unlock()
			if err != nil {
				return source.Fetched{}, err
			}
			continue
		}
		if l.next < k.next {
			got := source.Fetched{Next: k.next, LastStable: k.next}
			from, _ := slices.BinarySearchFunc(k.records, l.next, func(r recordbatch.Record, at int64) int { return cmp.Compare(r.Offset, at) })
			for _, r := range k.records[from:] {
				if k.most > 0 && len(got.Records) == k.most {
					got.Next = r.Offset
					break
				}
				if l.reused {
					r = copied(r)
					l.given = append(l.given, r)
				}
				got.Records = append(got.Records, r)
			}
			l.next = got.Next
			k.mu.Unlock()
			return got, nil
		}
		grown := k.grown
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return source.Fetched{}, ctx.Err()
		case <-grown:
		}
	}
}

// modelsOf makes different models of the features a, b and c.
func modelsOf(t testing.TB, n int) []*lca.Model {
	t.Helper()
	all := make([]*lca.Model, n)
	for i := range all {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		c := online.DefaultConfig(3)
		c.Neighbours = 30
		l, err := online.NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		x := mat.NewDense(200, 3, nil)
		x.Apply(func(_, j int, _ float64) float64 { return r.NormFloat64()*float64(1+j+i%5) + float64(i) }, x)
		if _, err := l.Learn(x, nil, nil); err != nil {
			t.Fatal(err)
		}
		if all[i], err = l.Model(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// keyedModels are models of a topic of one partition.
func keyedModels(t testing.TB, k *keyedTopic, by modelkey.By, memory int) *models.KeyedModels {
	t.Helper()
	byKey := &models.KeyedModels{
		Open: k.open, End: k.end, Failed: func(err error) { t.Error(err) },
		Topic: "snapshots", ModelID: "m", Source: "events", Group: "g", By: by, Memory: memory,
		Components: lca.ComponentsAll, Explains: true,
		AlarmsTo: func(id string) int32 { return int32(len(id) % 3) }, Stats: stats.NewStats(), Log: fixtures.Quiet(),
	}
	t.Cleanup(func() { byKey.Keep(nil) })
	return byKey
}

// keyedStage is a stage of a partition.
func keyedStage(byKey *models.KeyedModels, c TransformConfig) *KeyedTransform {
	c.Follow, c.Engines, c.Group = &models.Follow{ModelID: byKey.ModelID}, NewEngines(1, 1<<20), byKey.Group
	return &KeyedTransform{Transform: Transform{TransformConfig: c}, Models: byKey}
}

// keyedConfig is what stages have in common.
func keyedConfig(output encode.OutputConfig, invalid reject.OnInvalid, until UntilModel) TransformConfig {
	now := time.Unix(5000, 0)
	return TransformConfig{
		Group: "g", Topic: "out", Columns: []string{"a", "b", "c"}, Output: output, OnInvalid: invalid, UntilModel: until,
		Components: lca.ComponentsAll,
		Alarms:     Alarms{Topic: "alarms"},
		DeadLetter: reject.DeadLetter{Topic: "dead", Window: 1000, MaxRejects: 1000, Partitions: 1},
		Stats:      stats.NewStats(), Log: fixtures.Quiet(), Now: func() time.Time { return now },
	}
}

// snapshotOf is a version of a model of a key.
func snapshotOf(m *lca.Model, key string, version uint64) *snapshot.Snapshot {
	return &snapshot.Snapshot{
		Model: m, ModelID: modelkey.ID("m", 0, []byte(key)), Version: version, Features: []string{"a", "b", "c"},
		Offsets: source.Offsets{fixtures.Events: int64(version)}, Group: "g",
	}
}

// transformAlone is a stage that whitens with one model, or with none.
func transformAlone(c TransformConfig, s *snapshot.Snapshot, id string) *Transform {
	c.Follow = &models.Follow{ModelID: id}
	if s != nil {
		c.Follow.Adopt(&stats.PublishedModel{Snapshot: s})
	}
	c.Alarms.ModelID, c.Alarms.Partition = id, int32(len(id)%3)
	c.Stats, c.Engines = stats.NewStats(), nil
	return &Transform{TransformConfig: c}
}

// jsonRows is a message of JSON.
func jsonRows(r *rand.Rand, rows int, bad bool) []byte { return jsonRowsOf(r, rows, bad, 1) }

func jsonRowsOf(r *rand.Rand, rows int, bad bool, scale float64) []byte {
	text := []byte{'['}
	for i := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		a := fmt.Sprint(r.NormFloat64() * 4 * scale)
		if bad && i == rows/2 {
			a = "null"
		}
		text = fmt.Appendf(text, `{"a":%s,"b":%v,"c":%v,"n":%d}`, a, r.NormFloat64()*5*scale, r.NormFloat64()*6*scale, i)
	}
	return append(text, ']')
}
