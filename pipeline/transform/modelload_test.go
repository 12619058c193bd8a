package transform

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// keyedCase is a fleet of one partition in memory, and what whitens it.
type keyedCase struct {
	*keyedTopic
	t      *testing.T
	models *models.KeyedModels
	stage  *KeyedTransform
	offset int64
}

func newKeyedCase(t *testing.T, memory int, until UntilModel) *keyedCase {
	topic := newKeyedTopic(t, 2)
	models := keyedModels(t, topic, modelkey.By{Place: modelkey.Key}, memory)
	return &keyedCase{topic, t, models, keyedStage(models, keyedConfig(encode.OutputConfig{Passthrough: true}, reject.NullRow, until)), 0}
}

// versions whitens a row of each key, and returns the versions that they were whitened with.
func (c *keyedCase) versions(keys ...string) (versions []string) {
	c.t.Helper()
	if err := c.models.CatchUp(c.t.Context(), 0); err != nil {
		c.t.Fatal(err)
	}
	var b source.Batch
	for _, key := range keys {
		m := source.Message{Partition: fixtures.Events, Offset: c.offset, Key: []byte(key), Value: []byte(`{"a":1,"b":2,"c":3}`)}
		b.Messages = append(b.Messages, decodedAs(c.t, m))
		c.offset++
	}
	work, err := c.stage.Do(c.t.Context(), b)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range work.Messages {
		versions = append(versions, source.LastHeader(m.Headers, "lca-model-version"))
	}
	c.stage.Kept()
	return versions
}

func (c *keyedCase) want(keys []string, want ...string) {
	c.t.Helper()
	if got := c.versions(keys...); !slices.Equal(got, want) {
		c.t.Fatalf("keys %v are whitened with versions %v, want %v", keys, got, want)
	}
}

// The last good snapshot of a model stays where a newer one is damaged, cannot be decoded, or is of another pipeline.
func TestUnusableSnapshotsOfAKey(t *testing.T) {
	m := modelsOf(t, 1)[0]
	keys := []string{"x", "y"}
	for name, spoil := range map[string]func(k *keyedTopic) []sink.Message{
		"a damaged chunk": func(k *keyedTopic) []sink.Message {
			all := k.messages(snapshotOf(m, "x", 2))
			all[1].Value = append(slices.Clone(all[1].Value), 0)
			return all
		},
		"a chunk is missing": func(k *keyedTopic) []sink.Message { return k.messages(snapshotOf(m, "x", 2))[1:] },
		"other bytes": func(k *keyedTopic) []sink.Message {
			all, other := k.messages(snapshotOf(m, "x", 2)), newKeyedTopic(t, 2).messages(snapshotOf(m, "z", 2))
			for i := range all {
				all[i].Value = other[i].Value
				for j, h := range all[i].Headers {
					if h.Key == "lca-crc32c" {
						all[i].Headers[j] = other[i].Headers[j]
					}
				}
			}
			return all
		},
		"another source topic": func(k *keyedTopic) []sink.Message {
			s := snapshotOf(m, "x", 2)
			s.Offsets = source.Offsets{{Topic: "others"}: 2}
			return k.messages(s)
		},
		"other features": func(k *keyedTopic) []sink.Message {
			s := snapshotOf(m, "x", 2)
			s.Features = []string{"a", "b", "d"}
			return k.messages(s)
		},
		"another group": func(k *keyedTopic) []sink.Message {
			s := snapshotOf(m, "x", 2)
			s.Group = "h"
			return k.messages(s)
		},
		"another partition": func(k *keyedTopic) []sink.Message {
			s := snapshotOf(m, "x", 2)
			s.ModelID = modelkey.ID("m", 1, []byte("x"))
			return k.messages(s)
		},
	} {
		for _, memory := range []int{1, 1 << 20} {
			t.Run(fmt.Sprint(name, memory), func(t *testing.T) {
				c := newKeyedCase(t, memory, PassThrough)
				c.models.Features = []string{"a", "b", "c"}
				c.publish(snapshotOf(m, "x", 1))
				c.publish(snapshotOf(m, "y", 5))
				c.append(spoil(c.keyedTopic)...)
				c.want(keys, "1", "5")
				c.want(keys, "1", "5")
				c.publish(snapshotOf(m, "x", 3))
				c.want(keys, "3", "5")
				c.append(spoil(c.keyedTopic)...) // older than what is there
				c.want(keys, "3", "5")
			})
		}
	}
}

// Brokers that do not answer are waited for; rows are whitened afterwards.
func TestFetchFaultsOfModels(t *testing.T) {
	m := modelsOf(t, 1)[0]
	for name, fault := range map[string]error{
		"connection reset": errors.New("connection reset"), "out of range": &source.OffsetError{}, "created again": &source.RecreatedError{},
	} {
		t.Run(name, func(t *testing.T) {
			c := newKeyedCase(t, 1, PassThrough) // so that each row fetches its model
			for _, key := range []string{"x", "y", "z"} {
				c.publish(snapshotOf(m, key, 4))
			}
			if err := c.models.CatchUp(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			c.faults = []error{fault}
			c.mu.Unlock()
			c.want([]string{"x", "y", "z", "x"}, "4", "4", "4", "4")
		})
	}
}

// Where compaction has removed what the index remembers, the newer snapshot is looked up, although the index was behind.
func TestCompactedOffsetsAreLookedUpAgain(t *testing.T) {
	m := modelsOf(t, 1)[0]
	c := newKeyedCase(t, 1, PassThrough)
	c.keep = 1
	c.publish(snapshotOf(m, "x", 1))
	c.publish(snapshotOf(m, "y", 1))
	c.want([]string{"x", "y"}, "1", "1") // x is put out of memory
	c.publish(snapshotOf(m, "x", 2))
	c.compact()
	c.want([]string{"y", "x"}, "1", "2") // whether the index knows of version 2 by now, or not
}

// A model that was retired has none; one that comes back has a newer version.
func TestRetiredModels(t *testing.T) {
	m := modelsOf(t, 1)[0]
	c := newKeyedCase(t, 1<<20, PassThrough)
	c.publish(snapshotOf(m, "x", 1))
	c.publish(snapshotOf(m, "x", 2))
	c.want([]string{"x"}, "2")
	stats := c.models.Stats
	c.retire(modelkey.ID("m", 0, []byte("x")))
	c.want([]string{"x"}, "0")
	if _, total := stats.Models.List(0, 0, "id", false); total != 0 || stats.ModelCounts("transform").Retired.Load() != 1 {
		t.Errorf("%d models are in the table, %d retired", total, stats.ModelCounts("transform").Retired.Load())
	}
	if stats.ModelCounts("transform").Memory.Load() != 0 || c.models.Cache.Used != 0 {
		t.Errorf("%d models of %d bytes are in memory", stats.ModelCounts("transform").Memory.Load(), c.models.Cache.Used)
	}
	c.publish(snapshotOf(m, "x", 7))
	c.want([]string{"x"}, "7")
}

// The models used least recently are put out, and the table says so.
func TestLeastRecentlyUsedModelsGo(t *testing.T) {
	m := modelsOf(t, 1)[0]
	c := newKeyedCase(t, 1<<20, PassThrough)
	for i := range 6 {
		c.publish(snapshotOf(m, fmt.Sprint(i), 1))
	}
	c.versions("0", "1", "2", "3")
	c.models.Cache.Limit = c.models.Cache.Used * 5 / 4 // one more
	c.versions("1")
	c.versions("0", "4")
	c.versions("5")
	var in []string
	rows, total := c.models.Stats.Models.List(0, 10, "id", false)
	for _, r := range rows {
		if r.InMemory {
			in = append(in, r.Value)
		}
	}
	if total != 6 || !slices.Contains(in, "5") || !slices.Contains(in, "4") || !slices.Contains(in, "0") || slices.Contains(in, "2") {
		t.Errorf("%d models, of which %v are in memory", total, in)
	}
	counts := c.models.Stats.ModelCounts("transform")
	if n := counts.Memory.Load(); n != int64(len(in)) || counts.Loaded.Load() != 6 || counts.Evicted.Load() != uint64(6-len(in)) {
		t.Errorf("counted %d in memory, %d loaded, %d evicted; %v are in memory", n, counts.Loaded.Load(), counts.Evicted.Load(), in)
	}
}

// Models that many rows need stay in memory while others, needed once in a while, pass through it; where the rows change, so do the models.
func TestModelsThatPassThroughLeaveOthersInMemory(t *testing.T) {
	m := modelsOf(t, 1)[0]
	c := newKeyedCase(t, 1<<20, PassThrough)
	for i := range 200 {
		c.publish(snapshotOf(m, fmt.Sprint(i), 1))
	}
	c.versions("0", "1", "2", "3")
	c.models.Cache.Limit = c.models.Cache.Used
	counts := c.models.Stats.ModelCounts("transform")
	rare, most := 10, uint64(0)
	for batch := range 40 {
		often := []string{"0", "1", "2"}
		if batch >= 20 {
			often = []string{"3", "4", "5"}
		}
		before := counts.Loaded.Load()
		keys := slices.Clone(often)
		for range 20 {
			keys = append(keys, fmt.Sprint(10+rare%190))
			rare++
		}
		c.versions(keys...)
		if n := counts.Loaded.Load() - before - 20; batch > 2 && batch < 20 || batch >= 30 {
			most = max(most, n)
		}
	}
	if most != 0 {
		t.Errorf("up to %d of 3 models that every batch needs were fetched again", most)
	}
}
